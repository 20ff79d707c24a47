// What you can do about a highlighted moment: see its day, correct what was made of it, forget it.

import { get, remove } from "../api.js";
import { action, ask, corrections, describeForgetting, finish, memories } from "../changes.js";
import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { command, isoDay, quote } from "../parts.js";
import { ofUri, place } from "../places.js";

export function actions(event, { signal, announce }) {
	const path = `/events/${encodeURIComponent(event.event_id)}`;
	const list = h("div");
	const panel = h("div");
	const read = () => get(`${path}/derived/`, {}, signal);
	const first = read();
	first.then((made) => fill(list, madeList(made)), () => null);
	return h("div", { class: "moment", role: "group", "aria-label": "This moment" },
		list,
		h("p", { class: "actions" },
			h("a", { href: place(["timeline", `toc:day:${isoDay(event.timestamp_ms)}`]) }, "See its day"),
			action("Forget it", "d", askToForget),
			h("span", { class: "muted" }, "in a shell: ", command(`memory forget --event ${quote(event.event_id)}`)),
		),
		panel,
	);

	/** Say what it removes, and ask. */
	async function askToForget() {
		const made = await first.catch(read);
		const removed = [
			"Its words are removed from all that Agent Memory keeps",
			made.grips.length > 0 && `, with ${count(made.grips.length, "passage")} that summaries quote`,
			". The summaries of its segment, day, week, month and year are written again without it. With many events this takes minutes.",
			made.memories.length > 0 && ` ${memories(made.memories.length)} made from it stay until you forget them too.`,
			made.facts.length > 0 && ` ${count(made.facts.length, "fact made from it stays", "facts made from it stay")}.`,
		];
		ask(panel, "Forget this for good? You cannot undo this.", h("p", null, removed), "Forget for good", forget, "danger");
	}

	async function forget() {
		announce("Forgetting…");
		const report = await remove(path, { confirm: "true" });
		if (signal.aborted) return;
		// Titles and bullets had its words: read the session again.
		finish("Forgotten", { details: describeForgetting(report), url: place(["session", event.session_id], { near: event.timestamp_ms }) });
	}
}

function madeList({ memories: noted, facts }) {
	const link = (each, title) => h("a", { href: ofUri(each.uri) }, h("bdi", null, title));
	return h("ul", { class: "plain" },
		noted.map((each) => h("li", { "data-item": "" }, "Remembered from this: ", link(each, each.summary), ` (${each.status}) · `, corrections(each))),
		facts.map((each) => h("li", null, "Correct or delete the fact from this: ", link(each, `${each.key}: ${each.value}`))),
	);
}
