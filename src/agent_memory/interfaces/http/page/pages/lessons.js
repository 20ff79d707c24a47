// A lesson, and what a person can say of it.

import { patch, post } from "../api.js";
import { action, ask, field, finish, line } from "../changes.js";
import { h } from "../dom.js";
import { count, number, when } from "../format.js";
import { badge, dotted, why } from "../parts.js";
import { place } from "../places.js";

const MOST = 400; // characters
const KIND = { rejected: "bad", superseded: "" };

export function lessonEntry(lesson, accepts) {
	const panel = h("div");
	const path = `/lessons/${encodeURIComponent(lesson.id)}/`;
	const accept = async () => {
		await post(`${path}accept/`, {});
		finish(`Accepted: ${lesson.text}`);
	};
	const edit = () => {
		const box = line(MOST);
		const save = async () => {
			const { text } = await patch(path, { text: box.value.trim() });
			finish(`Accepted: ${text}`);
		};
		ask(panel, "Accept it in other words", field("The lesson, in one line", box, lesson.text), "Accept", save);
	};
	const reject = () => {
		const box = line(MOST);
		const save = async () => {
			await post(`${path}reject/`, { reason: box.value.trim() });
			finish(`Rejected: ${lesson.text}`);
		};
		ask(panel, "Reject it? Agents are not given it any more.", field("Why (you may leave it empty)", box), "Reject", save, "danger");
	};
	const add = (label, key, onClick, kind) => action(label, key, onClick, { class: kind, "aria-label": `${label}: ${lesson.text}` });
	const settled = lesson.state !== "rejected" && !lesson.to_review;
	return h("li", { class: "card", "data-item": "" },
		h("h3", { dir: "auto" }, lesson.text),
		lesson.situation && h("p", { class: "muted", dir: "auto" }, `About: ${lesson.situation}`),
		h("p", { class: "muted" },
			badge(lesson.kind), " ",
			badge(lesson.state, KIND[lesson.state] ?? "good"), " ",
			dotted(when(lesson.timestamp_ms), lesson.project && h("bdi", null, lesson.project), lesson.reason && h("bdi", null, lesson.reason), outcome(lesson)),
		),
		h("p", { class: "muted" },
			why(lesson.uri), " · ",
			h("a", { href: place(["session", lesson.session_id]), "data-entry": "" }, "The session that says it"),
		),
		h("p", { class: "actions" },
			accepts && [!settled && add("Accept", "a", accept), add("Edit", "e", edit)],
			(lesson.state !== "rejected" || lesson.to_review) && add("Reject…", "d", reject, "danger"),
		),
		panel,
	);
}

const outcome = ({ given, heeded, repeated }) =>
	given > 0 && `given ${count(given, "time")}, heeded ${number(heeded)}, repeated ${number(repeated)}`;
