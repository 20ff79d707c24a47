// One memory in full, and why it is known: the words it comes from, and who was given it.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, dayAndClock, when } from "../format.js";
import { badge, command, empty, facts, heading, prose } from "../parts.js";
import { event, ofUri, place } from "../places.js";

export async function render({ parts: [namespace = "", name = ""], params, signal }) {
  const path = `/memories/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/`;
  const memory = await get(path, { domain: params.get("domain") }, signal);
  const [source, given] = await Promise.all([
    memory.event_id ? get(`/events/${encodeURIComponent(memory.event_id)}`, {}, signal).catch(() => null) : null,
    get("/injections/", { item: memory.uri, limit: 20 }, signal),
  ]);
  return {
    title: memory.summary,
    content: [
      h("p", { class: "meta" }, badge("Memory", "of-memory"), " ", badge(memory.status), ` ${memory.namespace}`),
      heading(memory.summary),
      memory.content && prose(memory.content),
      memory.tags.length > 0 &&
        h("ul", { class: "tags", "aria-label": "Tags" }, memory.tags.map((tag) =>
          h("li", null, h("a", { href: place(["memories"], { tags: tag }) }, h("bdi", null, `#${tag}`))))),
      h("h2", null, "Why do you know this?"),
      why(memory, source),
      h("h2", null, "Given to agents"),
      givenList(given),
      relations(memory),
      h("h2", null, "About it"),
      facts([
        ["Id", h("code", null, memory.id)],
        ["Project", memory.domain],
        ["Captured", dayAndClock(memory.timestamp)],
        ["Changed", memory.updated_at === memory.timestamp ? null : dayAndClock(memory.updated_at)],
        ["Specification", memory.spec],
        ["Commit", memory.commit && h("code", null, memory.commit.slice(0, 12))],
        ["Used", memory.activation_count ? [`${count(memory.activation_count, "time")}, last `, when(memory.last_accessed)] : "never"],
      ]),
      h("h2", null, "To change it"),
      h("p", { class: "muted" }, "Changes are made in your shell:"),
      h("ul", { class: "plain commands" }, commands(memory).map((each) => h("li", null, command(each)))),
    ],
  };
}

function why(memory, source) {
  const automatic = memory.tags.includes("auto-captured");
  const how = automatic ? "It was noted automatically from this:" : "It was captured on request, from this:";
  if (source) {
    return [
      h("p", null, how),
      h(
        "blockquote",
        { dir: "auto" },
        prose(source.text),
        h(
          "p",
          { class: "muted" },
          `${source.role}, `,
          dayAndClock(source.timestamp_ms),
          " · ",
          h("a", { href: event(source.session_id, source.event_id), "data-entry": "" }, "See the moment in its session"),
        ),
      ),
    ];
  }
  if (memory.event_id) return h("p", null, "The words that it comes from were forgotten.");
  return h("p", null, "It was captured by a command, not from a conversation.");
}

function givenList(given) {
  if (given.injections.length === 0) return empty("No hook has given it to an agent.");
  return h(
    "ul",
    { class: "plain" },
    given.injections.map((each) =>
      h(
        "li",
        null,
        h("a", { href: place(["session", each.session_id], { at: each.timestamp_ms }), "data-entry": "" }, h("bdi", null, each.session_id)),
        ` ${each.agent}, ${each.hook}, `,
        when(each.timestamp_ms),
      ),
    ),
  );
}

function relations(memory) {
  const links = [
    ...memory.relates_to.map((id) => ["Relates to", id]),
    ...(memory.superseded_by ? [["Superseded by", memory.superseded_by]] : []),
  ];
  if (links.length === 0) return null;
  return [
    h("h2", null, "Relations"),
    h("ul", { class: "plain" }, links.map(([name, id]) => h("li", null, `${name} `, link(id, memory.domain)))),
  ];
}

function link(id, domain) {
  const url = ofUri(id.includes("://") ? id : `subcog://${domain}/${id.replace(":", "/")}`);
  return url ? h("a", { href: url, "data-entry": "" }, h("bdi", null, id)) : h("bdi", null, id);
}

function commands(memory) {
  const change = memory.status === "pending" ? ["memory review"] : [`memory edit ${memory.id} --summary "..."`];
  return [...change, `memory archive ${memory.id}`, `memory forget ${memory.id}`];
}
