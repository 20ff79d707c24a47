// The inbox: memories that were noted automatically, which count once a person accepts them, and new
// rules.

import { get, mayAccept, post } from "../api.js";
import { action, ask, field, finish, line, memories, names } from "../changes.js";
import { h } from "../dom.js";
import { count, when } from "../format.js";
import { badge, command, dotted, empty, heading, prose } from "../parts.js";
import { event, ofUri, place } from "../places.js";
import { lessonEntry } from "./lessons.js";

export async function render({ signal, announce }) {
	const [inbox, accepts] = await Promise.all([get("/inbox/", {}, signal), mayAccept()]);
	announce(inbox.lessons_total === 0 ? `${memories(inbox.total)} to review` : `${memories(inbox.total)} and ${count(inbox.lessons_total, "lesson")} to review`);
	return {
		content: [
			heading("Inbox"),
			inbox.total === 0
				? inbox.lessons_total === 0 && empty("Nothing awaits review.")
				: h("p", null, `${count(inbox.total, "memory awaits", "memories await")} review. What you accept is shared in the notes of its project. What you discard is forgotten, and not noted again.`),
			inbox.total + inbox.lessons_total > 0 && !accepts && notAccepting(),
			h("ol", { class: "hits" }, inbox.memories.map((memory) => entry(memory, accepts))),
			inbox.lessons_total > 0 && [
				h("h2", null, "Rules from your words"),
				h("p", null, "They hold already. One that you reject is not given to agents any more, even if it is said again."),
				h("ul", { class: "cards wide" }, inbox.lessons.map((lesson) => lessonEntry(lesson, accepts))),
			],
		],
	};
}

export const notAccepting = () =>
	h("p", { class: "warning" }, "This page was not opened from a terminal: it can discard, but not accept. Run ", command("memory ui"), " or ", command("memory review"), " in one.");

function entry(memory, accepts) {
	const panel = h("div");
	return h("li", { class: "hit", "data-item": "" },
		h("p", { class: "meta" },
			badge("Memory", "of-memory"), " ",
			dotted(memory.namespace, when(memory.timestamp_ms), h("bdi", null, memory.domain)),
		),
		h("a", { href: ofUri(memory.uri), "data-entry": "", class: "passage", dir: "auto" }, memory.summary),
		memory.content && memory.content !== memory.summary && prose(memory.content),
		memory.source &&
			h("p", { class: "muted" },
				`From ${memory.source.role === "user" ? "your words" : `the words of the ${memory.source.role}`}: `,
				h("a", { href: event(memory.source.session_id, memory.source.event_id), dir: "auto" }, memory.source.text.slice(0, 300)),
			),
		decisionButtons(memory, panel, accepts),
		panel,
	);
}

/** Return what a person can decide on a memory that awaits review. */
export function decisionButtons(memory, panel, accepts) {
	const decide = async (decision, summary = memory.summary) => {
		const { change, skipped, found_in: found } = await post("/inbox/", { decisions: [{ id: memory.uri, decision, summary }] });
		const message = skipped.length ? "Nothing changed" : `${decision === "accept" ? "Accepted" : "Discarded"}: ${summary}`;
		const details = [...skipped, ...found.map((each) => `Something of it is still in ${each}`)];
		// What was accepted is in the notes: to undo it would archive it, not bring it back here.
		finish(message, { change: decision === "accept" ? null : change, details, url: place(["inbox"]) });
	};
	const reword = () => {
		const box = line(100);
		const accept = () => decide("accept", box.value.trim());
		ask(panel, "Accept it in other words", field("Summary, in one line", box, memory.summary), "Accept", accept);
	};
	const discard = () =>
		ask(panel, "Discard it for good? It is forgotten, and not noted again.", names([memory]), "Discard", () => decide("discard"), "danger");
	const add = (label, key, onClick, kind) => action(label, key, onClick, { class: kind, "aria-label": `${label}: ${memory.summary}` });
	return h("p", { class: "actions" },
		accepts && [add("Accept", "a", () => decide("accept")), add("Edit and accept", "e", reword)],
		add("Discard…", "d", discard, "danger"),
	);
}
