// A session: the conversation as it was, from any of its events. Beside it, its segments and what they rest on.

import { get } from "../api.js";
import { guess, paint } from "../code.js";
import { fill, h } from "../dom.js";
import { clock, count, day, dayAndClock, millis } from "../format.js";
import { badge, button, empty, heading, isoDay, kindBadge, prose } from "../parts.js";
import { place } from "../places.js";
import { actions } from "./forget.js";

const WINDOW = 200; // events added at once
const CONTEXT = 30; // events shown before the one that is asked for
const KEPT = 600; // events in the page: those far from the view are dropped
const NAMES = {
	session_start: "Session starts",
	session_end: "Session ends",
	assistant_stop: "Turn ends",
	subagent_start: "Subagent starts",
	subagent_stop: "Subagent ends",
};

export async function render({ parts: [id = ""], params, signal, announce }) {
	const path = `/sessions/${encodeURIComponent(id)}`;
	const [target, { items: [known] }, head] = await Promise.all([
		readTarget(params, signal),
		get("/sessions/", { session_id: id }, signal),
		get(`${path}/segments/`, { limit: 1 }, signal),
	]);
	const talk = new Talk(path, signal);
	await talk.open(target.start);
	const found = new Set(talk.isThere && !params.has("near") ? span(talk.chunks.at(-1).events, target.end) : []);
	const title = head.segments[0]?.title || known?.summary || id;
	const list = h("ol", { class: "talk" });

	const build = (chunk, before) =>
		(chunk.nodes = chunk.events.map((each, index) => {
			const isFound = found.has(each.event_id);
			const previous = chunk.events[index - 1] ?? before;
			const notes = { ...chunk.notes.get(each.event_id) };
			if (notes.segment?.lead && before) delete notes.segment; // it is named above
			return entry(each, previous, notes, isFound ? target.excerpt : null, { id, signal, announce, title });
		}));
	const show = (chunk, isEarlier, before) => {
		const anchor = isEarlier ? list.firstElementChild : list.lastElementChild;
		const top = anchor?.getBoundingClientRect().top;
		if (isEarlier) list.prepend(...build(chunk));
		else list.append(...build(chunk, before));
		for (const far of talk.drop(isEarlier)) far.nodes.forEach((each) => each.remove());
		// Most browsers keep what is in view in its place by themselves.
		if (anchor?.isConnected) requestAnimationFrame(() => scrollBy(0, anchor.getBoundingClientRect().top - top));
		earlier.hidden = !talk.before;
		later.hidden = !talk.after;
		announce(`${count(list.children.length, "event")} shown`);
	};
	let isLoading = false; // what comes next depends on what is shown
	const load = (isEarlier) => async () => {
		if (isLoading) return;
		isLoading = true;
		try {
			const last = talk.chunks.at(-1).events.at(-1);
			const chunk = await talk.load(isEarlier);
			show(chunk, isEarlier, last);
			chunk.nodes.at(isEarlier ? -1 : 0)?.focus({ preventScroll: true });
		} finally {
			isLoading = false;
		}
	};
	const earlier = h("p", { class: "more", hidden: true }, button("Show earlier", load(true)));
	const later = h("p", { class: "more", hidden: true }, button("Show later", load(false)));
	talk.chunks.forEach((chunk, index) => show(chunk, false, talk.chunks[index - 1]?.events.at(-1)));

	return {
		title,
		content: [
			heading(title),
			list.children.length > 0 ? about(id, known, talk) : empty("There is no such session, or it was forgotten."),
			talk.isGone && h("p", { class: "warning" }, "That moment is no longer in this session."),
			earlier,
			list,
			later,
		],
		arrive: () => {
			const goal = list.querySelector(".highlighted") ?? (target.start === END ? list.lastElementChild : null);
			if (!goal) {
				scrollTo(0, 0);
				document.querySelector("h1").focus({ preventScroll: true });
				return;
			}
			goal.querySelector("details")?.setAttribute("open", "");
			goal.scrollIntoView({ block: "center" });
			requestAnimationFrame(() => goal.scrollIntoView({ block: "center" })); // what is above it has its height now
			goal.focus({ preventScroll: true });
		},
	};
}

const END = { order: "desc" };
const orMissing = (error) => {
	if (error.status === 404) return null;
	throw error;
};

/** The part of a session that is read: chunks of events, with the tokens to read on from both ends. */
class Talk {
	constructor(path, signal) {
		this.path = path;
		this.signal = signal;
		this.chunks = [];
		this.isThere = false; // what was asked for
		this.isGone = false;
	}

	get before() {
		return this.chunks[0].before;
	}

	get after() {
		return this.chunks.at(-1).after;
	}

	/** Read where a target is, with some context; else the beginning. */
	async open(start) {
		const limit = WINDOW - CONTEXT;
		let chunk = start ? await this.read({ ...start, limit }).catch(orMissing) : await this.read({ limit });
		this.isGone = chunk === null;
		this.isThere = start !== null && start !== END && chunk?.events.length > 0;
		if (chunk?.events.length === 0) chunk = await this.read({ ...END, limit }); // the time is after the last
		chunk ??= await this.read({ limit });
		this.chunks = [chunk];
		if (start === null || this.isGone) chunk.before = null;
		if (this.isThere) {
			const context = await this.read({ order: "desc", continuation_token: chunk.before, limit: CONTEXT });
			if (context.events.length > 0) this.chunks.unshift(context);
			else chunk.before = null;
		}
	}

	async load(isEarlier) {
		const chunk = await this.read(
			isEarlier
				? { order: "desc", continuation_token: this.before, limit: WINDOW }
				: { continuation_token: this.after, limit: WINDOW },
		);
		if (isEarlier) this.chunks.unshift(chunk);
		else this.chunks.push(chunk);
		return chunk;
	}

	/** Forget the chunks that are far from the end that was just read, and return them. */
	drop(isEarlier) {
		const far = [];
		const size = () => this.chunks.reduce((sum, each) => sum + each.events.length, 0);
		while (size() > KEPT) far.push(isEarlier ? this.chunks.pop() : this.chunks.shift());
		return far;
	}

	async read(params) {
		const page = await get(`${this.path}/events/`, params, this.signal);
		const [before, after] = [page.reverse_token, page.continuation_token];
		const isBack = params.order === "desc";
		const events = isBack ? page.events.reverse() : page.events;
		return {
			events,
			before: isBack ? after : before,
			after: isBack ? before : after,
			notes: await this.readNotes(events),
			nodes: [],
		};
	}

	/** Return by event what belongs beside it: the segment that begins there, and bullets that rest on it. */
	async readNotes(events) {
		const notes = new Map();
		if (events.length === 0) return notes;
		const [from, to] = [events[0].timestamp_ms, events.at(-1).timestamp_ms];
		const range = { from_timestamp_ms: from, to_timestamp_ms: to, limit: 500 };
		const { segments } = await get(`${this.path}/segments/`, range, this.signal);
		const at = (event) => {
			if (!notes.has(event)) notes.set(event, { bullets: [] });
			return notes.get(event);
		};
		for (const node of segments) {
			const first = events.find((each) => each.timestamp_ms >= node.start_time_ms && each.text !== "");
			const lead = node.start_time_ms < from ? "… " : ""; // it began before
			if (first) at(first.event_id).segment = { ...node, lead };
			const places = new Map(node.grips.map((grip) => [grip.grip_id, grip.event_id_start]));
			for (const bullet of node.bullets) {
				for (const event of new Set(bullet.grip_ids.map((each) => places.get(each)))) {
					if (event) at(event).bullets.push({ ...bullet, node });
				}
			}
		}
		return notes;
	}
}

/** Return where to begin and what to highlight: a grip, one event, or the first since a time. */
async function readTarget(params, signal) {
	const grip = params.get("grip");
	if (grip) {
		const found = await get(`/grips/${encodeURIComponent(grip)}/`, { events_before: 0, events_after: 0 }, signal);
		const { event_id_start: start, event_id_end: end, excerpt } = found.grip;
		return { start: { from_event_id: start }, end, excerpt };
	}
	const id = params.get("event");
	if (id) return { start: { from_event_id: id }, excerpt: "" };
	if (params.get("at") === "end") return { start: END };
	const at = Number(params.get("at") ?? params.get("near")); // near: without a mark
	return { start: at ? { from_timestamp_ms: at } : null, excerpt: "" };
}

/** Return the ids of the events to highlight; the first is the one that was asked for. */
function span(events, end) {
	const last = events.findIndex((each) => each.event_id === end);
	return events.slice(0, Math.max(0, last) + 1).map((each) => each.event_id);
}

function about(id, known, talk) {
	const events = talk.chunks.flatMap((each) => each.events);
	const said = events.slice(0, 50).reduce((all, each) => ({ ...each.metadata, ...all }), {});
	const start = known ? millis(known.started_at) : events[0].timestamp_ms;
	const more = talk.before || talk.after ? " and more" : "";
	const go = (submitted) => {
		submitted.preventDefault();
		const at = Date.parse(submitted.target.elements.at.value);
		if (at) location.hash = place(["session", id], { at });
	};
	return [
		h("p", { class: "muted" },
			[known?.project ?? said.project, known?.agent ?? said.agent, said.branch].filter(Boolean).map((each) => [h("bdi", null, each), " · "]),
			h("a", { href: place(["timeline", `toc:day:${isoDay(start)}`]) }, dayAndClock(start)),
			` · ${known ? count(known.events, "event") : count(events.length, "event") + more} · `,
			h("bdi", null, id),
		),
		(talk.before || talk.after) &&
			h("form", { class: "jump", "aria-label": "Jump in this session", on: { submit: go } },
				h("a", { href: place(["session", id]) }, "Beginning"),
				h("a", { href: place(["session", id], { at: "end" }) }, "End"),
				h("a", { href: place(["search"], { session: id }) }, "Search in it"),
				h("label", null, "Go to ", h("input", { type: "datetime-local", name: "at", required: true })),
				h("button", null, "Go"),
			),
	];
}

function entry(each, before, { segment, bullets = [] }, excerpt, view) {
	const newDay = !before || day(before.timestamp_ms) !== day(each.timestamp_ms);
	const url = place(["session", view.id], { event: each.event_id });
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
		segment &&
			h("h2", { class: "segment-mark" },
				h("a", { href: place(["timeline", segment.node_id]), dir: "auto" }, segment.lead, segment.title === view.title ? "This part in the timeline" : segment.title),
			),
		h("div", { class: "said" },
			h("p", { class: "meta" },
				h("strong", null, quiet ? NAMES[each.event_type] || each.event_type.replaceAll("_", " ") : who), " ",
				h("a", { href: url, class: "stamp" }, newDay ? dayAndClock(each.timestamp_ms) : clock(each.timestamp_ms)),
				each.metadata.speaker && [" ", badge(each.metadata.speaker)],
				highlighted && [" ", badge("this moment", "here")],
			),
			quiet ? null : body(each, excerpt ?? ""),
			highlighted && actions(each, view),
		),
		bullets.length > 0 &&
			h("ul", { class: "notes", "aria-label": "Noted from this" }, bullets.map(note)),
	);
}

const note = (bullet) =>
	h("li", null, kindBadge(bullet), h("a", { href: place(["timeline", bullet.node.node_id]), dir: "auto" }, bullet.text));

function body(each, excerpt) {
	if (each.role !== "tool") return prose(each.text, {}, excerpt);
	const [line] = each.text.split("\n", 1);
	const output = h("pre", { tabindex: "0", "aria-label": "Output of the tool" });
	const open = () => output.firstChild || fill(output, longText(each.text, guess(line)));
	return h("details", { class: "tool", on: { toggle: open } }, h("summary", { dir: "auto" }, line.slice(0, 160)), output);
}

function longText(value, language) {
	const most = 20_000;
	if (value.length <= most) return paint(value, language);
	const box = h("span", null, value.slice(0, most));
	return [box, h("br"), button(`Show all ${value.length.toLocaleString()} characters`, (clicked) => {
		fill(box, value);
		clicked.target.remove();
	})];
}
