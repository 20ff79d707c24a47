// Memories: by project, namespace and status.

import { get } from "../api.js";
import { append, fill, h } from "../dom.js";
import { count } from "../format.js";
import { command, empty, heading, more, select } from "../parts.js";
import { place, stay } from "../places.js";
import { hitEntry, readProjects } from "./search.js";

const PAGE = 50;
const NAMESPACES = [
  "decisions",
  "learnings",
  "blockers",
  "progress",
  "reviews",
  "patterns",
  "retrospective",
  "inception",
  "elicitation",
  "research",
];
const STATUSES = ["pending", "active", "resolved", "archived"];

export async function render({ params, signal, announce }) {
  const asked = {};
  for (const name of ["domain", "namespace", "status", "tags"]) asked[name] = params.get(name) ?? "";
  const results = h("div");
  const find = (offset) => get("/memories/", { ...asked, limit: PAGE, offset: offset || "" }, signal);

  const run = async () => {
    stay(place(["memories"], asked));
    const answer = await find(0);
    if (signal.aborted) return;
    const list = h("ol", { class: "hits" }, answer.results.map((hit) => hitEntry(hit)));
    let token = answer.continuation_token;
    const told = answer.total === 0 ? "No memory is like this." : count(answer.total, "memory", "memories");
    announce(told);
    fill(results, h("p", { class: "muted" }, told), list);
    if (answer.total === 0 && !Object.values(asked).some(Boolean)) {
      append(results, [empty("Save one: ", command('memory capture decisions "Use PostgreSQL"'))]);
    }
    if (token) {
      const load = async () => {
        const next = await find(Number(token));
        list.append(...next.results.map((hit) => hitEntry(hit)));
        token = next.continuation_token;
        return token !== null;
      };
      results.append(more(load));
    }
  };
  const set = (name) => (value) => {
    asked[name] = value;
    return run();
  };
  const [projects] = await Promise.all([readProjects(signal), run()]);
  const domains = [["", "All"], ["user", "user"], ...projects.map((each) => [`project:${each}`, each])];
  const same = (names) => [["", "All"], ...names.map((each) => [each, each])];
  return {
    content: [
      heading("Memories"),
      h(
        "div",
        { class: "fields" },
        select("Project", "domain", domains, asked.domain, set("domain")),
        select("Namespace", "namespace", same(NAMESPACES), asked.namespace, set("namespace")),
        select("Status", "status", [["", "All but archived"], ...same(STATUSES).slice(1)], asked.status, set("status")),
        asked.tags && h("p", null, h("a", { href: place(["memories"]) }, `Without the tag ${asked.tags}`)),
      ),
      results,
    ],
  };
}
