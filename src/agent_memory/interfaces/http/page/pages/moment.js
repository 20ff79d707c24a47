// The places of an event and of a grip, and "why": all lead to a moment in a session.

import { Refused, get } from "../api.js";
import { h } from "../dom.js";
import { dayAndClock } from "../format.js";
import { heading } from "../parts.js";
import { event, ofUri, place } from "../places.js";

export async function render({ name, parts: [id = ""], params, signal }) {
	if (name === "why") return explain(params.get("uri") ?? "", signal);
	if (name === "event") {
		const found = await get(`/events/${encodeURIComponent(id)}`, {}, signal);
		return go(event(found.session_id, found.event_id), signal);
	}
	const found = await get(`/grips/${encodeURIComponent(id)}/`, { events_before: 0, events_after: 0 }, signal);
	const first = found.excerpt_events[0];
	if (first === undefined) throw new Refused(404, "The words of this grip were forgotten.");
	return go(place(["session", first.session_id], { grip: id }), signal);
}

/** Walk to the words that a record comes from, or say why there are none. */
async function explain(uri, signal) {
	const found = await get("/why/", { name: uri, limit: 1 }, signal);
	const [words] = found.events;
	const url = ofUri(found.uri);
	if (words) return go(found.kind === "grip" ? url : event(words.session_id, words.event_id), signal);
	if (found.memory) return go(url, signal); // which says how it came about
	const how =
		found.kind === "fact"
			? "A program stored it without saying where it was said, or the words were forgotten."
			: "It is a summary: its bullets lead to the words.";
	return {
		title: "Why",
		content: [
			heading("Why do you know this?"),
			h("blockquote", { dir: "auto" }, found.title),
			h("p", null, how, " It is known since ", dayAndClock(found.timestamp_ms), "."),
			url && h("p", null, h("a", { href: url, "data-entry": "" }, found.kind === "fact" ? "Correct or delete it" : "See the record")),
		],
	};
}

function go(url, signal) {
	if (!signal.aborted) location.replace(url);
	return null;
}
