// The timeline: a year as a heat map, then month, week, day and segment. The URL is the place.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, clock, duration } from "../format.js";
import { badge, empty, heading } from "../parts.js";
import { place } from "../places.js";

const DAY_MS = 86_400_000;
const LEVELS = 4; // of a cell that is not empty
const KINDS = {
  note: "",
  asked: "Asked",
  planned: "Planned",
  finished: "Finished",
  done: "Done",
  decided: "Decided",
  found: "Found",
  broken: "Broken",
  open: "Open",
  state: "State",
};
const BELOW = { month: "Weeks", week: "Days" };
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", timeZone: "UTC" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });
const WEEKDAY = new Intl.DateTimeFormat(undefined, { weekday: "short", timeZone: "UTC" });
const FRESH_MS = 30_000;
const trees = new Map(); // year -> {at, tree}

export async function render({ parts: [id = ""], signal }) {
  if (id.startsWith("toc:") && !id.startsWith("toc:year:")) return renderNode(id, signal);
  const years = (await get("/toc/", {}, signal)).nodes.map((node) => Number(node.title));
  if (years.length === 0) {
    return {
      content: [heading("Timeline"), empty("Nothing has been summarized yet. That happens some minutes after a session.")],
    };
  }
  const wanted = Number(id.replace("toc:year:", ""));
  return renderYear(wanted || Math.max(...years), years, signal);
}

async function readTree(year, signal) {
  const kept = trees.get(year);
  if (kept && Date.now() - kept.at < FRESH_MS) return kept.tree;
  const range = { from: `${year}-01-01`, to: `${year}-12-31` };
  const tree = (await get("/toc/tree/", { depth: "day", ...range }, signal)).nodes;
  trees.set(year, { at: Date.now(), tree });
  return tree;
}

function flatten(nodes, level) {
  return nodes
    .flatMap((node) => (node.level === level ? [node] : flatten(node.children, level)))
    .sort((a, b) => a.start_time_ms - b.start_time_ms);
}

async function renderYear(year, years, signal) {
  const tree = await readTree(year, signal);
  const node = tree.find((each) => each.title === String(year));
  const days = new Map(flatten(tree, "day").map((each) => [each.node_id.slice("toc:day:".length), each]));
  const months = flatten(tree, "month");
  const map = heatMap(year, days);
  return {
    title: `${year}`,
    content: [
      pan(yearLink(year - 1, years, "prev"), heading(`${year}`), yearLink(year + 1, years, "next")),
      node ? h("p", { dir: "auto" }, node.summary) : empty("Nothing was recorded in this year."),
      map,
      node && bulletList(node.bullets),
      months.length > 0 && h("h2", null, "Months"),
      childList([...months].reverse()),
    ],
    arrive: () => {
      scrollTo(0, 0);
      const places = [...map.querySelectorAll("a")].map((each) => each.getBoundingClientRect().left);
      map.scrollLeft += Math.max(0, ...places) - map.clientWidth / 2; // the newest day
    },
  };
}

function yearLink(year, years, rel) {
  if (rel === "prev" ? year < Math.min(...years) : year > Math.max(...years)) return null;
  return h("a", { href: place(["timeline", String(year)]), rel }, rel === "prev" ? `← ${year}` : `${year} →`);
}

const pan = (before, title, after) => h("div", { class: "pan" }, title, h("span", { class: "pan-links" }, before, " ", after));

/** Return a table: a row for each day of the week, a column for each week. */
function heatMap(year, days) {
  const first = Date.UTC(year, 0, 1);
  const lead = (new Date(first).getUTCDay() + 6) % 7; // Monday is the first
  const start = first - lead * DAY_MS;
  const end = Date.UTC(year, 11, 31);
  const weeks = Math.ceil((end - start + DAY_MS) / (7 * DAY_MS));
  const all = [...days.values()].map((each) => each.work.prompts);
  const head = [];
  for (let week = 0; week < weeks; week += 1) {
    const sunday = new Date(start + (week * 7 + 6) * DAY_MS);
    const isFirst = sunday.getUTCDate() <= 7 && sunday.getUTCFullYear() === year;
    head.push(h("td", { class: "month" }, isFirst ? h("span", null, MONTH.format(sunday)) : null));
  }
  const rows = [0, 1, 2, 3, 4, 5, 6].map((weekday) => {
    const cells = [];
    for (let week = 0; week < weeks; week += 1) {
      const at = start + (week * 7 + weekday) * DAY_MS;
      const node = days.get(new Date(at).toISOString().slice(0, 10));
      cells.push(at < first || at > end ? h("td") : cell(at, node, all));
    }
    const name = WEEKDAY.format(start + weekday * DAY_MS);
    return h("tr", null, h("th", { scope: "row" }, name), cells);
  });
  return h(
    "div",
    { class: "heat", role: "region", "aria-label": `Activity in ${year}`, tabindex: "0" },
    h("table", null, h("thead", null, h("tr", null, h("td"), head)), h("tbody", null, rows)),
  );
}

function cell(at, node, all) {
  if (!node) return h("td", { class: "none" });
  // By rank: one very busy day must not make all others look alike.
  const below = all.filter((prompts) => prompts <= node.work.prompts).length;
  const level = Math.ceil((LEVELS * below) / all.length);
  const label = `${DATE.format(at)}: ${count(node.work.sessions, "session")}, ${count(node.work.prompts, "prompt")}`;
  const link = h("a", { href: place(["timeline", node.node_id]), "aria-label": label, title: label, "data-entry": "" });
  return h("td", { class: `level-${level}` }, link);
}

async function renderNode(id, signal) {
  const path = `/toc/${encodeURIComponent(id)}/`;
  const [node, children] = await Promise.all([get(path, {}, signal), readChildren(path, signal)]);
  const tree = await readTree(new Date(node.start_time_ms).getUTCFullYear(), signal);
  const parents = trail(tree, node);
  const siblings = node.level === "segment" ? [] : flatten(tree, node.level);
  const at = siblings.findIndex((each) => each.node_id === id);
  const isDay = node.level === "day";
  return {
    title: node.title,
    content: [
      h(
        "nav",
        { "aria-label": "Where you are", class: "trail" },
        h("ol", null, parents.map((each) => h("li", null, h("a", { href: place(["timeline", each.node_id]) }, each.title)))),
      ),
      pan(
        sibling(siblings[at - 1], "prev"),
        heading(node.title),
        sibling(at < 0 ? undefined : siblings[at + 1], "next"),
      ),
      node.level === "segment" &&
        h(
          "p",
          { class: "muted" },
          clock(node.start_time_ms),
          " to ",
          clock(node.end_time_ms),
          " · ",
          h("a", { href: place(["session", node.session_id], { at: node.start_time_ms }), "data-entry": "" }, "See it in its session"),
        ),
      node.summary && h("p", { dir: "auto" }, node.summary),
      work(node.work),
      bulletList(node.bullets),
      isDay
        ? sessionColumns(children)
        : children.length > 0 && [h("h2", null, BELOW[node.level]), childList(children)],
    ],
  };
}

async function readChildren(path, signal) {
  const children = [];
  for (let offset = 0; offset !== null; ) {
    const page = await get(`${path}children/`, { limit: 100, offset: offset || "" }, signal);
    children.push(...page.children);
    offset = page.next_offset;
  }
  return children;
}

function sibling(node, rel) {
  if (!node) return null;
  return h("a", { href: place(["timeline", node.node_id]), rel }, rel === "prev" ? `← ${node.title}` : `${node.title} →`);
}

/** Return the nodes above one, the year first. */
function trail(nodes, node) {
  for (const each of nodes) {
    if (each.node_id === node.node_id) return [];
    if (each.children.length === 0 && each.child_node_ids.includes(node.node_id)) return [each];
    const below = trail(each.children, node);
    if (below.length > 0 || each.children.some((child) => child.node_id === node.node_id)) return [each, ...below];
  }
  return [];
}

function work(done) {
  const parts = [
    done.sessions && count(done.sessions, "session"),
    done.prompts && count(done.prompts, "prompt"),
    done.commits && count(done.commits, "commit"),
    done.seconds && duration(done.seconds),
  ].filter(Boolean);
  return [
    parts.length > 0 && h("p", { class: "muted" }, parts.join(" · ")),
    done.files.length > 0 &&
      h("details", null, h("summary", null, count(done.files.length, "file changed", "files changed")),
        h("ul", { class: "plain" }, done.files.map((file) => h("li", null, h("code", null, file))))),
  ];
}

/** Return bullets. Each leads to the words that it rests on. */
function bulletList(bullets) {
  if (bullets.length === 0) return null;
  return h(
    "ul",
    { class: "bullets" },
    bullets.map((bullet) => {
      const [first, ...others] = bullet.grip_ids;
      const kind = KINDS[bullet.kind] ?? bullet.kind;
      return h(
        "li",
        null,
        kind && !bullet.text.startsWith(`${kind}:`) && badge(kind, `kind-${bullet.kind}`),
        " ",
        first
          ? h("a", { href: place(["grip", first]), "data-entry": "", dir: "auto" }, bullet.text)
          : h("span", { dir: "auto" }, bullet.text),
        others.map((grip, index) => [
          " ",
          h("a", { href: place(["grip", grip]), class: "more-grips", "aria-label": `Source ${index + 2}` }, `[${index + 2}]`),
        ]),
      );
    }),
  );
}

const childList = (nodes) => (nodes.length > 0 ? h("ul", { class: "cards" }, nodes.map(card)) : null);

function card(node) {
  return h(
    "li",
    { class: "card" },
    h("h3", null, h("a", { href: place(["timeline", node.node_id]), "data-entry": "", dir: "auto" }, node.title)),
    node.level === "segment" && h("p", { class: "muted" }, clock(node.start_time_ms), " to ", clock(node.end_time_ms)),
    h("p", { dir: "auto" }, node.summary),
  );
}

/** Return the segments of a day, with its sessions side by side. */
function sessionColumns(segments) {
  const sessions = group(segments);
  return h(
    "div",
    { class: "columns" },
    [...sessions].map(([id, own]) =>
      h(
        "section",
        { "aria-label": `Session ${id}` },
        h(
          "h2",
          null,
          own[0].project && [h("bdi", null, own[0].project), " "],
          h("a", { href: place(["session", id]), "data-entry": "" }, h("bdi", { class: "session-id" }, id)),
        ),
        childList(own),
      ),
    ),
  );
}

function group(segments) {
  const sessions = new Map();
  for (const each of segments) sessions.set(each.session_id, [...(sessions.get(each.session_id) ?? []), each]);
  return sessions;
}
