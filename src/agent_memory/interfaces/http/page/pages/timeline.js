// The timeline: a year as a heat map, then month, week, day and segment. The URL is the place.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { count, clock, duration } from "../format.js";
import { empty, heading, isoDay, kindBadge } from "../parts.js";
import { place } from "../places.js";

const DAY_MS = 86_400_000;
const LEVELS = 4; // of a cell that is not empty
const BESIDE = 15; // periods of the ribbon on each side
const NOTCH_MS = 250; // of a wheel: it moves by one period at a time
const DRAG_PX = 40;
const BELOW = { month: "Weeks", week: "Days" };
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", timeZone: "UTC" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });
const WEEKDAY = new Intl.DateTimeFormat(undefined, { weekday: "short", timeZone: "UTC" });
const FRESH_MS = 30_000;
const trees = new Map(); // year -> {at, tree}

export async function render({ parts: [id = ""], params, signal }) {
	const near = Number(params.get("near")); // where we came from: to zoom in leads back there
	if (id.startsWith("toc:") && !id.startsWith("toc:year:")) return renderNode(id, near, signal);
	const years = (await get("/toc/", {}, signal)).nodes.map((node) => Number(node.title));
	if (years.length === 0) {
		return {
			content: [heading("Timeline"), empty("Nothing has been summarized yet. That happens some minutes after a session.")],
		};
	}
	const wanted = Number(id.replace("toc:year:", ""));
	return renderYear(wanted || Math.max(...years), years, near, signal);
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

async function renderYear(year, years, near, signal) {
	const tree = await readTree(year, signal);
	const node = tree.find((each) => each.title === String(year));
	const days = new Map(flatten(tree, "day").map((each) => [each.node_id.slice("toc:day:".length), each]));
	const months = flatten(tree, "month");
	const [map, label] = heatMap(year, days);
	return {
		title: `${year}`,
		content: [
			pan(heading(`${year}`), yearLink(year - 1, years, "prev"), yearLink(year + 1, years, "next"), zoom(null, months, near)),
			node ? h("p", { dir: "auto" }, node.summary) : empty("Nothing was recorded in this year."),
			map,
			label,
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

const pan = (title, ...links) => h("div", { class: "pan", on: { wheel: wheel(false) } }, title, h("span", { class: "pan-links" }, links));

/** Return links out to the period around this one, and in: where we came from, or to the newest. */
function zoom(node, children, near) {
	const inside = children.find((each) => each.start_time_ms <= near && near <= each.end_time_ms) ?? children.at(-1);
	const out = node?.parent;
	return [
		out && h("a", { href: place(["timeline", out.node_id], { near: node.start_time_ms }), rel: "up" }, `− ${out.title}`),
		inside && h("a", { href: place(["timeline", inside.node_id], { near }), rel: "down" }, `+ ${inside.title.length > 30 ? `${inside.title.slice(0, 29)}…` : inside.title}`),
	];
}

const press = (rel) => document.querySelector(`[rel=${rel}]`)?.click();

/** Return what a wheel does: with Ctrl, as two fingers send it, it zooms; else it moves along, or scrolls. */
const wheel = (isAlong) => (turned) => {
	if (!turned.ctrlKey && !isAlong) return;
	turned.preventDefault();
	const by = turned.deltaY || turned.deltaX;
	if (Math.abs(by) < 4 || turned.timeStamp - lastNotch < NOTCH_MS) return;
	lastNotch = turned.timeStamp;
	if (turned.ctrlKey) press(by < 0 ? "down" : "up");
	else press(by < 0 ? "prev" : "next");
};

/** Return the periods around one, by their activity. A wheel or a drag moves along it. */
function ribbon(siblings, at) {
	if (siblings.length < 2) return null;
	const start = Math.max(0, at - BESIDE);
	const shown = siblings.slice(start, at + BESIDE + 1);
	const all = shown.map((each) => each.work.prompts);
	let from = null;
	const on = {
		wheel: wheel(true),
		pointerdown: (pressed) => (from = pressed.clientX),
		pointerup: (raised) => from !== null && Math.abs(raised.clientX - from) > DRAG_PX && press(raised.clientX > from ? "prev" : "next"),
		dragstart: (dragged) => dragged.preventDefault(),
		click: (clicked) => from !== null && Math.abs(clicked.clientX - from) > DRAG_PX && clicked.preventDefault(),
	};
	return h("nav", { class: "ribbon", "aria-label": "Nearby", on },
		h("ol", null, shown.map((each, index) => {
			const label = `${each.title}: ${count(each.work.sessions, "session")}, ${count(each.work.prompts, "prompt")}`;
			const bar = h("span", { class: `level-${rank(each.work.prompts, all)}` });
			return h("li", null, h("a", { href: place(["timeline", each.node_id]), title: label, "aria-label": label, "aria-current": start + index === at ? "date" : null }, bar, short(each)));
		})),
	);
}
let lastNotch = -NOTCH_MS; // the first turn counts, however young the page is

const short = (node) =>
	node.level === "month" ? MONTH.format(node.start_time_ms) : node.level === "week" ? /\d+/.exec(node.title)[0] : new Date(node.start_time_ms).getUTCDate();

/** Return the days in the order of their dates, a column for each week. Below is the one in focus. */
function heatMap(year, days) {
	const first = Date.UTC(year, 0, 1);
	const start = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY_MS; // Monday is the first
	const all = [...days.values()].map((each) => each.work.prompts);
	const names = [0, 1, 2, 3, 4, 5, 6].map((each) => h("span", null, WEEKDAY.format(start + each * DAY_MS)));
	const cells = [];
	for (let at = start; at <= Date.UTC(year, 11, 31); at += DAY_MS) {
		const sunday = new Date(at + 6 * DAY_MS);
		if (sunday.getUTCDay() === 0) cells.push(h("span", null, sunday.getUTCDate() <= 7 && sunday.getUTCFullYear() === year && MONTH.format(sunday)));
		cells.push(at < first ? h("span") : cell(at, days.get(isoDay(at)), all));
	}
	const label = h("p", { class: "muted" }, `Today is ${DATE.format(Date.now())}.`);
	const show = ({ target }) => target.title && fill(label, target.title);
	return [
		h("div", { class: "heat", role: "region", "aria-label": `Activity in ${year}`, tabindex: "0", on: { focusin: show, pointerover: show } }, h("div", { class: "weekdays" }, h("span"), names), cells),
		label,
	];
}

function cell(at, node, all) {
	const today = isoDay(at) === isoDay(Date.now()) && "date";
	if (!node) return h("span", { class: "none", title: DATE.format(at), "aria-current": today });
	const label = `${DATE.format(at)}: ${count(node.work.sessions, "session")}, ${count(node.work.prompts, "prompt")}`;
	return h("a", { class: `level-${rank(node.work.prompts, all)}`, href: place(["timeline", node.node_id]), "aria-label": label, title: label, "aria-current": today, "data-entry": "" });
}

/** Return a level by rank: one very busy day must not make all others look alike. */
function rank(prompts, all) {
	return 1 + Math.floor((LEVELS * all.filter((each) => each < prompts).length) / all.length);
}

async function renderNode(id, near, signal) {
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
			h("nav", { "aria-label": "Where you are", class: "trail" },
				h("ol", null, parents.map((each) => h("li", null, h("a", { href: place(["timeline", each.node_id]) }, each.title)))),
			),
			pan(
				heading(node.title),
				sibling(siblings[at - 1], "prev"),
				sibling(at < 0 ? undefined : siblings[at + 1], "next"),
				zoom({ ...node, parent: parents.at(-1) }, children, near),
			),
			ribbon(siblings, at),
			node.level === "segment" &&
				h("p", { class: "muted" },
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
	return h("ul", { class: "bullets" },
		bullets.map((bullet) => {
			const [first, ...others] = bullet.grip_ids;
			return h("li", null,
				kindBadge(bullet),
				first
					? h("a", { href: place(["grip", first]), "data-entry": "", "data-why": "", dir: "auto" }, bullet.text)
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
	return h("li", { class: "card" },
		h("h3", null, h("a", { href: place(["timeline", node.node_id]), "data-entry": "", dir: "auto" }, node.title)),
		node.level === "segment" && h("p", { class: "muted" }, clock(node.start_time_ms), " to ", clock(node.end_time_ms)),
		h("p", { dir: "auto" }, node.summary),
	);
}

/** Return the segments of a day, with its sessions side by side. */
function sessionColumns(segments) {
	const sessions = group(segments);
	return h("div", { class: "columns" },
		[...sessions].map(([id, own]) =>
			h("section", { "aria-label": `Session ${id}` },
				h("h2", null,
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
