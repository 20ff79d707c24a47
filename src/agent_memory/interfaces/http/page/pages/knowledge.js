// Knowledge: facts with their history, episodes, procedures and users.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { count, dayAndClock, duration, number, when } from "../format.js";
import { badge, empty, heading, more } from "../parts.js";
import { place } from "../places.js";

const PAGE = 50;
const KINDS = {
  facts: { title: "Facts", one: "fact", entry: factEntry },
  episodes: { title: "Episodes", one: "episode", entry: episodeEntry },
  procedures: { title: "Procedures", one: "procedure", entry: procedureEntry },
  users: { title: "Users", one: "user", entry: userEntry },
};

export async function render({ parts: [name = "facts", id = ""], signal, announce }) {
  const kind = KINDS[name] ?? KINDS.facts;
  const read = (offset) => get(`/memories/${name}/`, { limit: PAGE, offset: offset || "" }, signal);
  const page = id
    ? { items: [await get(`/memories/${name}/${encodeURIComponent(id)}/`, {}, signal)], total: 1 }
    : await read(0);
  const list = h("ul", { class: "cards wide" }, page.items.map((each) => kind.entry(each, signal)));
  if (id) list.querySelector("details")?.setAttribute("open", "");
  announce(count(page.total, kind.one));
  const load = async () => {
    const next = await read(list.children.length);
    list.append(...next.items.map((each) => kind.entry(each, signal)));
    return list.children.length < next.total;
  };
  return {
    title: kind.title,
    content: [
      heading("Knowledge"),
      h(
        "nav",
        { "aria-label": "Kinds of knowledge", class: "tabs" },
        h("ul", null, Object.entries(KINDS).map(([each, { title }]) =>
          h("li", null, h("a", { href: place(["knowledge", each]), "aria-current": each === name ? "page" : null }, title)))),
      ),
      h("h2", { class: "unseen" }, kind.title),
      page.total === 0 ? empty(`No ${kind.title.toLowerCase()} yet.`) : list,
      page.total > page.items.length && more(load),
    ],
  };
}

function factEntry(fact, signal) {
  const history = h("div");
  const open = async (toggled) => {
    if (!toggled.target.open || history.firstChild) return;
    const page = await get(`/memories/facts/${encodeURIComponent(fact.id)}/history/`, {}, signal);
    fill(history, page.total === 0 ? h("p", { class: "muted" }, "It has had no other value.") : h("ol", { class: "plain" }, page.items.map(former)));
  };
  return h(
    "li",
    { class: "card" },
    h("h3", { dir: "auto" }, fact.key),
    h("p", { dir: "auto" }, fact.value),
    h(
      "p",
      { class: "muted" },
      badge(fact.fact_type),
      ` ${Math.round(fact.confidence * 100)} % sure · confirmed ${count(fact.times_confirmed, "time")} · `,
      when(fact.updated_at),
      ` · ${fact.scope}`,
    ),
    h("details", { on: { toggle: open } }, h("summary", { "data-entry": "" }, "History"), history),
  );
}

const former = (value) =>
  h("li", null, h("bdi", null, value.value), h("span", { class: "muted" }, " from ", dayAndClock(value.held_from), " until ", dayAndClock(value.held_until)));

function episodeEntry(episode) {
  const title = episode.summary || `${episode.trigger_type} of ${episode.agent_id || "an agent"}`;
  const link = episode.session_id
    ? h("a", { href: place(["session", episode.session_id]), "data-entry": "", dir: "auto" }, title)
    : h("span", { dir: "auto" }, title);
  return h(
    "li",
    { class: "card" },
    h("h3", null, link),
    h(
      "p",
      { class: "muted" },
      badge(episode.success ? "succeeded" : episode.error_code || "failed", episode.success ? "good" : "bad"),
      " ",
      episode.agent_id && [h("bdi", null, episode.agent_id), " · "],
      duration(episode.duration_ms / 1000),
      " · ",
      when(episode.started_at),
    ),
  );
}

function procedureEntry(procedure) {
  const used = procedure.times_used > 0;
  return h(
    "li",
    { class: "card" },
    h("h3", { dir: "auto" }, procedure.name),
    procedure.description && h("p", { dir: "auto" }, procedure.description),
    h(
      "p",
      { class: "muted" },
      !procedure.is_active && [badge("inactive"), " "],
      used
        ? `${Math.round(procedure.success_rate * 100)} % of ${count(procedure.times_used, "use")} succeeded`
        : "never used",
    ),
    procedure.steps.length > 0 && h("ol", null, procedure.steps.map((step) => h("li", { dir: "auto" }, step))),
  );
}

function userEntry(user) {
  return h(
    "li",
    { class: "card" },
    h("h3", { dir: "auto" }, user.display_name || user.canonical_id),
    h(
      "p",
      { class: "muted" },
      h("bdi", null, user.canonical_id),
      ` · ${number(user.total_conversations)} conversations`,
      user.last_seen_at && [" · last seen ", when(user.last_seen_at)],
    ),
  );
}
