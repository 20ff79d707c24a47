// A session: the conversation as it was. Tools are folded; one event, or a grip, can be highlighted.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { clock, count, day, dayAndClock } from "../format.js";
import { badge, button, command, empty, heading, prose, quote } from "../parts.js";
import { place } from "../places.js";

const PAGE = 500; // of a request
const SEEK_PAGE = 1000; // of one that looks for a moment
const WINDOW = 200; // events added at once
const CONTEXT = 30; // events shown before the one that is asked for
const SEGMENT_DAYS = 90;
const DAY_MS = 86_400_000;
const NAMES = {
  session_start: "Session starts",
  session_end: "Session ends",
  assistant_stop: "Turn ends",
  subagent_start: "Subagent starts",
  subagent_stop: "Subagent ends",
};

export async function render({ parts: [id = ""], params, signal, announce }) {
  const target = await readTarget(params, signal);
  const talk = new Talk(id, target.wanted ? SEEK_PAGE : PAGE, signal);
  await talk.loadUntil(target.isFirst);
  const found = target.wanted ? talk.events.findIndex(target.isFirst) : -1;
  let first = Math.max(0, found - CONTEXT);
  let last = first;
  const list = h("ol", { class: "talk" });
  const earlier = h("p", { class: "more" });
  const later = h("p", { class: "more" });
  const segments = await readSegments(talk.events, id, signal);
  const title = segments.values().next().value?.title || id;
  const lastFound = found < 0 ? -1 : lastIndex(talk.events, found, target);
  const isHighlighted = (index) => found >= 0 && index >= found && index <= lastFound;

  const entries = (from, to) =>
    talk.events.slice(from, to).map((each, offset) => {
      const index = from + offset;
      const before = talk.events[index - 1];
      const entry = eventEntry(each, before, isHighlighted(index) ? target.excerpt : null, id);
      const segment = segments.get(each.event_id);
      return segment && segment.title !== title ? [segmentMark(segment), entry] : entry;
    });
  const addLater = async () => {
    if (last >= talk.events.length) {
      await talk.load();
      for (const [key, node] of await readSegments(talk.events.slice(last), id, signal)) {
        if (node.start_time_ms >= talk.events[last].timestamp_ms) segments.set(key, node);
      }
    }
    const until = Math.min(talk.events.length, last + WINDOW);
    list.append(...entries(last, until).flat());
    last = until;
    update();
  };
  const addEarlier = () => {
    const height = document.documentElement.scrollHeight;
    const from = Math.max(0, first - WINDOW);
    list.prepend(...entries(from, first).flat());
    first = from;
    update();
    scrollBy(0, document.documentElement.scrollHeight - height);
  };
  const update = () => {
    fill(earlier, first > 0 && button(`Show earlier (${count(first, "event")})`, addEarlier));
    fill(later, (last < talk.events.length || talk.token) && button("Show later", addLater));
    announce(`${count(last - first, "event")} shown`);
  };
  await addLater();

  const start = talk.events[0];
  const known = talk.events.slice(0, 50).reduce((all, each) => ({ ...each.metadata, ...all }), {});
  return {
    title,
    content: [
      heading(title),
      start
        ? h(
            "p",
            { class: "muted" },
            [known.project, known.agent, known.branch].filter(Boolean).map((each) => [h("bdi", null, each), " · "]),
            h("a", { href: place(["timeline", `toc:day:${isoDay(start.timestamp_ms)}`]) }, dayAndClock(start.timestamp_ms)),
            ` · ${count(talk.events.length, "event")}${talk.token ? " and more" : ""} · `,
            h("bdi", null, id),
          )
        : empty("There is no such session, or it was forgotten."),
      target.wanted && found < 0 && h("p", { class: "warning" }, "That moment is no longer in this session."),
      earlier,
      list,
      later,
    ],
    arrive: () => {
      const highlighted = list.querySelector(".highlighted");
      if (!highlighted) {
        scrollTo(0, 0);
        return;
      }
      highlighted.querySelector("details")?.setAttribute("open", "");
      highlighted.scrollIntoView({ block: "center" });
      highlighted.focus({ preventScroll: true });
    },
  };
}

/** The events of a session, read page by page. */
class Talk {
  constructor(id, size, signal) {
    this.id = id;
    this.size = size;
    this.signal = signal;
    this.events = [];
    this.token = "";
  }

  async load() {
    if (this.token === null) return;
    const path = `/sessions/${encodeURIComponent(this.id)}/events/`;
    const page = await get(path, { limit: this.size, continuation_token: this.token }, this.signal);
    this.events.push(...page.events);
    this.token = page.continuation_token;
  }

  async loadUntil(isFound) {
    do await this.load();
    while (this.token !== null && !this.events.some(isFound));
  }
}

/** Return which events to highlight: those of a grip, one event, or the first since a time. */
async function readTarget(params, signal) {
  const grip = params.get("grip");
  if (grip) {
    const found = await get(`/grips/${encodeURIComponent(grip)}/`, { events_before: 0, events_after: 0 }, signal);
    const { event_id_start: start, event_id_end: end, excerpt } = found.grip;
    return { wanted: true, isFirst: (each) => each.event_id === start, end, excerpt };
  }
  const id = params.get("event");
  if (id) return { wanted: true, isFirst: (each) => each.event_id === id, end: id, excerpt: "" };
  const at = Number(params.get("at"));
  if (at) return { wanted: true, isFirst: (each) => each.timestamp_ms >= at, end: null, excerpt: "" };
  return { wanted: false, isFirst: () => true };
}

function lastIndex(events, found, target) {
  const at = events.findIndex((each) => each.event_id === target.end);
  return Math.max(found, at);
}

/** Return the segments that begin in the loaded part, by the id of their first event. */
async function readSegments(events, id, signal) {
  const starts = new Map();
  if (events.length === 0) return starts;
  const from = events[0].timestamp_ms;
  const to = Math.min(events.at(-1).timestamp_ms, from + SEGMENT_DAYS * DAY_MS);
  const tree = await get("/toc/tree/", { depth: "segment", from: isoDay(from), to: isoDay(to) }, signal);
  const pending = [...tree.nodes];
  while (pending.length > 0) {
    const node = pending.pop();
    pending.push(...node.children);
    if (node.level !== "segment" || node.session_id !== id) continue;
    const first = events.find((each) => each.timestamp_ms >= node.start_time_ms);
    if (first) starts.set(first.event_id, node);
  }
  return new Map([...starts].sort((a, b) => a[1].start_time_ms - b[1].start_time_ms));
}

const isoDay = (value) => new Date(value).toISOString().slice(0, 10);

function segmentMark(node) {
  return h(
    "li",
    { class: "segment-mark" },
    h("h2", null, h("a", { href: place(["timeline", node.node_id]), dir: "auto" }, node.title)),
  );
}

function eventEntry(each, before, excerpt, session) {
  const newDay = !before || day(before.timestamp_ms) !== day(each.timestamp_ms);
  const url = place(["session", session], { event: each.event_id });
  const who = each.role === "tool" ? each.metadata.tool_name || "tool" : each.role;
  const highlighted = excerpt !== null;
  const quiet = each.text === "";
  return h(
    "li",
    {
      class: `event ${each.role}${highlighted ? " highlighted" : ""}${quiet ? " quiet-event" : ""}`,
      "data-entry": quiet ? null : "",
      tabindex: quiet ? null : "-1",
      "data-event": each.event_id,
    },
    h(
      "p",
      { class: "meta" },
      h("strong", null, quiet ? NAMES[each.event_type] || each.event_type.replaceAll("_", " ") : who),
      " ",
      h("a", { href: url, class: "stamp" }, newDay ? dayAndClock(each.timestamp_ms) : clock(each.timestamp_ms)),
      each.metadata.speaker && [" ", badge(each.metadata.speaker)],
      highlighted && [" ", badge("this moment", "here")],
    ),
    quiet ? null : body(each, excerpt),
    highlighted && h("p", { class: "muted" }, "To forget it: ", command(`memory forget --event ${quote(each.event_id)}`)),
  );
}

function body(each, excerpt) {
  if (each.role === "tool") {
    const [line] = each.text.split("\n", 1);
    return h(
      "details",
      { class: "tool" },
      h("summary", { dir: "auto" }, line.slice(0, 160)),
      h("pre", { tabindex: "0", "aria-label": "Output of the tool" }, longText(each.text)),
    );
  }
  const at = excerpt ? each.text.indexOf(excerpt) : -1;
  if (at < 0) return prose(each.text);
  return h(
    "div",
    { class: "prose", dir: "auto" },
    h("p", { dir: "auto" }, each.text.slice(0, at), h("mark", null, excerpt), each.text.slice(at + excerpt.length)),
  );
}

function longText(value) {
  const most = 20_000;
  if (value.length <= most) return value;
  const box = h("span", null, value.slice(0, most));
  return [box, h("br"), button(`Show all ${value.length.toLocaleString()} characters`, (clicked) => {
    fill(box, value);
    clicked.target.remove();
  })];
}
