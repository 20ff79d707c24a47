// Changes: what all pages need that change memories. Ask again, say what was done, offer to undo.

import { get, patch, post } from "./api.js";
import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { button, inline } from "./parts.js";
import { ofUri, place } from "./places.js";

let last = null; // what was just done, until it is shown

export const memories = (number) => count(number, "memory", "memories");

/** Return a button with a key that does the same. */
export const action = (label, key, onClick, props = {}) =>
	button(label, onClick, { "data-key": key, "aria-keyshortcuts": key, title: `Key: ${key}`, ...props });

/** Say what was done, and show this place again, or another. `change` is its name, to undo it. */
export function finish(message, { change = null, details = [], url = location.hash } = {}) {
	last = { message, details, change };
	if (url === location.hash) dispatchEvent(new Event("show-again"));
	else location.hash = url;
}

/** Return what was just done, once; null if nothing was. */
export function outcome(announce) {
	if (last === null) return null;
	const { message, details, change } = last;
	last = null;
	announce(message);
	return h("div", { class: "outcome", tabindex: "-1", role: "group", "aria-label": "What was done" },
		h("p", null, h("strong", { dir: "auto" }, message), " ", change && action("Undo", "u", () => undo(change))),
		h("ul", { class: "plain muted" }, details.map((each) => h("li", { dir: "auto" }, each))),
	);
}

/** Take back the change of that name; the daemon refuses if it is not the last. */
async function undo(change) {
	const { restored, archived, left } = await post("/memories/undo/", { change });
	const [one] = restored.length === 1 && archived.length === 1 ? restored : []; // an edit: show the text that is back
	const since = left.length ? `; ${memories(left.length)} changed since: not undone` : "";
	finish(`Undone: ${memories(restored.length + archived.length)} as before${since}`, { url: one ? place(["memory", ...one.split(/:(.*)/s, 2)]) : location.hash });
}

/** Change a memory, and say so. New text is another memory: go there. */
export async function change(memory, body, message) {
	const [, namespace, name] = memory.uri.slice("subcog://".length).split("/");
	const changed = await patch(`/memories/${namespace}/${name}/?${new URLSearchParams({ domain: memory.domain })}`, body);
	finish(changed.change ? message : "Nothing changed", { change: changed.change, url: changed.uri === memory.uri ? location.hash : ofUri(changed.uri) });
}

/** Ask in `panel`. `body` names what is concerned, or has fields; `act` does it. */
export function ask(panel, question, body, yes, act, kind = "") {
	const before = document.activeElement;
	const close = () => {
		fill(panel);
		before?.focus();
	};
	const problem = h("p", { class: "warning", role: "alert", dir: "auto", hidden: true });
	const go = h("button", { class: kind }, yes);
	const submit = async (event) => {
		event.preventDefault();
		go.disabled = cancel.disabled = true;
		go.textContent = "Working…";
		try {
			await act();
		} catch (error) {
			if (!error.status || error.status === 401) throw error;
			problem.hidden = false;
			fill(problem, inline(error.message));
		} finally {
			go.disabled = cancel.disabled = false;
			go.textContent = yes;
		}
	};
	const keydown = (event) => {
		if (event.key !== "Escape") return;
		event.preventDefault();
		close();
	};
	const cancel = button("Cancel", close);
	const actions = h("p", { class: "actions" }, go, cancel);
	fill(panel, h("form", { class: `ask ${kind}`, "aria-label": question, on: { submit, keydown } }, h("p", null, h("strong", null, question)), body, problem, actions));
	(panel.querySelector("input, textarea") ?? (kind === "danger" ? cancel : go)).focus();
	panel.scrollIntoView({ block: "nearest" });
}

/** Return a field with a label and a text. The text is set as a value: it is no markup. */
export function field(label, box, value = "") {
	box.value = value;
	return h("label", { class: "field wide" }, h("span", null, label), box);
}

/** Return a box for one line. A longer one is refused, not cut. */
export const line = (most) => h("input", { type: "text", pattern: `.{0,${most}}`, title: `At most ${most} characters`, dir: "auto", autocomplete: "off" });

/** Return the names of memories, to ask about them. */
export const names = (found) => h("ul", { class: "bulleted" }, found.slice(0, 10).map((each) => h("li", { dir: "auto" }, each.summary)),
	found.length > 10 && h("li", null, `and ${found.length - 10} more`));

/** Return links that correct or archive a memory. */
export function corrections(memory) {
	const link = (act, label, key) => h("a", { href: ofUri(memory.uri, { act }), "data-key": key, "aria-label": `${label}: ${memory.summary}` }, label);
	return [link("edit", "Edit", "e"), " · ", link("archive", "Archive")];
}

/** Ask, then forget memories in one run, and show the report. `chosen` have a URI and a summary. */
export function askToForget(panel, chosen, url) {
	const forget = async () => {
		const report = await post("/memories/batch-forget/", { ids: chosen.map((each) => each.uri), confirm: true });
		const { length } = report.forgotten;
		finish(length ? `Forgotten: ${memories(length)}` : "Nothing was forgotten", { details: describeForgetting(report), url });
	};
	const question = `Forget ${chosen.length === 1 ? "this memory" : memories(chosen.length)} for good? You cannot undo this.`;
	ask(panel, question, names(chosen), "Forget for good", forget, "danger");
}

/** Return the lines of a report; only the refusals if nothing was searched for. */
export const describeForgetting = ({ found_in: found, unreachable, refused = [], searched, events, grips, versions, nodes }) => [
	searched && (found.length ? `Still found in: ${found.join(", ")}` : `Searched the store and ${count(searched.files, "file")}: nothing of it is left.`),
	events && `Removed ${count(grips, "passage")} and ${count(versions, "earlier summary", "earlier summaries")}, rewrote ${count(nodes, "summary", "summaries")}.`,
	...refused.map((each) => `Not forgotten: ${each.reason}`),
	...(searched ? ["Copies that this cannot reach:", ...unreachable.map((each) => `– ${each}`)] : []),
].filter(Boolean);

/** Find another memory in `panel`. `onPick` gets a hit. */
export function pick(panel, question, own, onPick) {
	const words = line(300);
	const list = h("ul", { class: "plain" });
	const find = async () => {
		const { results } = await get("/search/", { query: words.value, kinds: "memory", limit: 8 });
		const hits = results.filter((hit) => hit.uri !== own);
		const choose = (hit) => h("li", null, button([h("bdi", null, hit.summary), ` ${hit.id}`], () => onPick(hit)));
		fill(list, hits.length ? hits.map(choose) : h("li", { class: "muted" }, "No other memory has these words."));
		list.querySelector("button")?.focus();
	};
	ask(panel, question, [field("Words of the other memory", words), list], "Find", find);
}
