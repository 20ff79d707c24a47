// Knowledge: facts with their history, lessons, episodes, procedures, users, and the threads of graphs.

import { get, mayAccept, patch, post } from "../api.js";
import { action, ask, field, finish } from "../changes.js";
import { fill, h } from "../dom.js";
import { bytes, count, dayAndClock, duration, number, when } from "../format.js";
import { badge, command, empty, heading, more, prose, why } from "../parts.js";
import { place } from "../places.js";
import { lessonEntry } from "./lessons.js";

const PAGE = 50;
const code = (words) => h("code", null, words);
const KINDS = {
	facts: {
		title: "Facts",
		one: "fact",
		entry: factEntry,
		how: ["An agent that you run here stores one with its tool ", code("remember"), ", a program with ", code("POST /api/v1/memories/facts/"), "."],
	},
	lessons: {
		title: "Lessons",
		one: "lesson",
		entry: (lesson, _signal, accepts) => lessonEntry(lesson, accepts),
		root: "/lessons",
		how: ["They are learned from your sessions. Connect an agent: ", command("memory install claude-code")],
	},
	episodes: {
		title: "Episodes",
		one: "episode",
		entry: episodeEntry,
		how: ["One is learned from each session. Connect an agent: ", command("memory install claude-code")],
	},
	procedures: {
		title: "Procedures",
		one: "procedure",
		entry: procedureEntry,
		how: ["One is learned when an agent uses the same tools in the same order again and again. A program adds one with ", code("POST /api/v1/memories/procedures/"), "."],
	},
	users: {
		title: "Users",
		one: "user",
		entry: userEntry,
		how: ["One is learned from the sessions of each user. A program adds one with ", code("POST /api/v1/memories/users/"), "."],
	},
	threads: {
		title: "Threads",
		one: "thread",
		entry: threadEntry,
		path: "checkpoints/threads",
		how: ["A LangGraph program keeps its states here with the checkpointer ", code("AgentMemorySaver"), "."],
	},
};

export async function render({ parts: [name = "facts", id = ""], signal, announce }) {
	const kind = KINDS[name] ?? KINDS.facts;
	const root = kind.root ?? `/memories/${kind.path ?? name}`;
	const read = async (offset) => {
		const { items, lessons, total } = await get(`${root}/`, { limit: PAGE, offset: offset || "" }, signal);
		return { items: items ?? lessons, total };
	};
	const accepts = await mayAccept();
	const page = id && !kind.path
		? { items: [await get(`${root}/${encodeURIComponent(id)}/`, {}, signal)], total: 1 }
		: await read(0);
	const list = h("ul", { class: "cards wide" }, page.items.map((each) => kind.entry(each, signal, accepts)));
	if (id) list.querySelector("details")?.setAttribute("open", "");
	announce(count(page.total, kind.one));
	const load = async () => {
		const next = await read(list.children.length);
		list.append(...next.items.map((each) => kind.entry(each, signal, accepts)));
		return list.children.length < next.total;
	};
	return {
		title: kind.title,
		content: [
			heading("Knowledge"),
			h("nav", { "aria-label": "Kinds of knowledge", class: "tabs" },
				h("ul", null, Object.entries(KINDS).map(([each, { title }]) =>
					h("li", null, h("a", { href: place(["knowledge", each]), "aria-current": each === name ? "page" : null }, title)))),
			),
			h("h2", { class: "unseen" }, kind.title),
			page.total === 0 ? empty(`No ${kind.title.toLowerCase()} yet. `, kind.how) : list,
			page.total > page.items.length && more(load),
		],
	};
}

function factEntry(fact, signal) {
	const history = h("div");
	const panel = h("div");
	const correct = () => {
		const box = h("textarea", { rows: 3, dir: "auto" });
		const save = async () => {
			await patch(`/memories/facts/${encodeURIComponent(fact.id)}/`, { value: box.value.trim() });
			finish(`Corrected: ${fact.key}`);
		};
		ask(panel, "Correct the fact. Its history keeps what it said before.", field("Value", box, fact.value), "Save", save);
	};
	const askToDelete = () => {
		const remove = async () => {
			await post("/memories/facts/batch-delete/", { ids: [fact.id] });
			finish(`Deleted: ${fact.key}`, { url: place(["knowledge", "facts"]) });
		};
		ask(panel, "Delete this fact with its history? You cannot undo this.", h("p", { dir: "auto" }, fact.key), "Delete", remove, "danger");
	};
	const open = async (toggled) => {
		if (!toggled.target.open || history.firstChild) return;
		const page = await get(`/memories/facts/${encodeURIComponent(fact.id)}/history/`, {}, signal);
		fill(history, page.total === 0 ? h("p", { class: "muted" }, "It has had no other value.") : h("ol", { class: "plain" }, page.items.map(former)));
	};
	return h("li", { class: "card", "data-item": "" },
		h("h3", { dir: "auto" }, fact.key),
		prose(fact.value),
		h("p", { class: "muted" },
			badge(fact.fact_type), " ",
			share(fact.confidence, "sure"),
			` · confirmed ${count(fact.times_confirmed, "time")} · `,
			when(fact.updated_at),
			" · ",
			h("bdi", null, fact.scope),
			fact.agent_id && [" · ", h("bdi", null, fact.agent_id)],
		),
		h("p", { class: "muted" }, fact.event_id || fact.session_id ? why(`memory://facts/${fact.id}`) : "Its source is not known."),
		h("details", { on: { toggle: open } }, h("summary", { "data-entry": "" }, "History"), history),
		h("p", { class: "actions" }, action("Correct", "e", correct, { "aria-label": `Correct: ${fact.key}` }),
			action("Delete…", "d", askToDelete, { class: "danger", "aria-label": `Delete: ${fact.key}` })),
		panel,
	);
}

/** Return a link to where a former value was said, if that is known. */
function source({ event_id: event, session_id: session }) {
	if (event) return h("a", { href: place(["event", event]) }, "The moment it was said");
	return session && h("a", { href: place(["session", session]) }, "The session it was said in");
}

function share(value, words) {
	const percent = Math.round(value * 100);
	return [h("meter", { min: 0, max: 100, value: percent, "aria-label": `${percent} % ${words}` }), ` ${percent} % ${words}`];
}

const former = (value) =>
	h("li", null,
		h("bdi", null, value.value),
		h("span", { class: "muted" }, " from ", dayAndClock(value.held_from), " until ", dayAndClock(value.held_until), ` · ${Math.round(value.confidence * 100)} % sure`),
		source(value) && [" · ", source(value)],
	);

function episodeEntry(episode) {
	const title = episode.summary || `${episode.trigger_type} of ${episode.agent_id || "an agent"}`;
	const link = episode.session_id
		? h("a", { href: place(["session", episode.session_id]), "data-entry": "", dir: "auto" }, title)
		: h("span", { dir: "auto" }, title);
	return h("li", { class: "card" },
		h("h3", null, link),
		h("p", { class: "muted" },
			badge(episode.success ? "succeeded" : episode.error_code || "failed", episode.success ? "good" : "bad"), " ",
			episode.agent_id && [h("bdi", null, episode.agent_id), " · "],
			duration(episode.duration_ms / 1000),
			" · ",
			when(episode.started_at),
		),
	);
}

function procedureEntry(procedure) {
	const used = procedure.times_used > 0;
	return h("li", { class: "card" },
		h("h3", { dir: "auto" }, procedure.name),
		procedure.description && h("p", { dir: "auto" }, procedure.description),
		h("p", { class: "muted" },
			!procedure.is_active && [badge("inactive"), " "],
			used
				? share(procedure.success_rate, `of ${count(procedure.times_used, "use")} succeeded`)
				: "never used",
			procedure.agent_id && [" · ", h("bdi", null, procedure.agent_id)],
		),
		procedure.steps.length > 0 && h("ol", { class: "steps" }, procedure.steps.map((step) => h("li", { dir: "auto" }, step))),
	);
}

function userEntry(user) {
	return h("li", { class: "card" },
		h("h3", { dir: "auto" }, user.display_name || user.canonical_id),
		h("p", { class: "muted" },
			h("bdi", null, user.canonical_id),
			` · ${number(user.total_conversations)} conversations`,
			user.last_seen_at && [" · last seen ", when(user.last_seen_at)],
		),
	);
}

function threadEntry(thread, signal) {
	const box = h("div");
	const read = (offset) =>
		get("/memories/checkpoints/", { thread_id: thread.thread_id, limit: PAGE, offset: offset || "" }, signal);
	const open = async (toggled) => {
		if (!toggled.target.open || box.firstChild) return;
		const page = await read(0);
		const list = h("ol", { class: "plain" }, page.items.map(checkpoint));
		const load = async () => {
			const next = await read(list.children.length);
			list.append(...next.items.map(checkpoint));
			return list.children.length < next.total;
		};
		fill(box, list, page.total > page.items.length && more(load));
	};
	const { latest } = thread;
	return h("li", { class: "card" },
		h("h3", { dir: "auto" }, thread.thread_id),
		h("p", { class: "muted" },
			count(thread.checkpoints, "checkpoint"),
			latest.step !== null && ` · step ${number(latest.step)}`,
			latest.timestamp_ms && [" · ", when(latest.timestamp_ms)],
		),
		h("details", { on: { toggle: open } }, h("summary", { "data-entry": "" }, "Checkpoints"), box),
	);
}

const checkpoint = (each) =>
	h("li", null,
		each.step === null ? "no step" : `step ${number(each.step)}`,
		h("span", { class: "muted" },
			each.source && [" · ", h("bdi", null, each.source)],
			each.checkpoint_ns && [" · in ", h("bdi", null, each.checkpoint_ns)],
			` · ${bytes(each.blob_size)}`,
			each.timestamp_ms && [" · ", dayAndClock(each.timestamp_ms)],
		),
		h("div", { class: "muted" }, code(each.checkpoint_id)),
	);
