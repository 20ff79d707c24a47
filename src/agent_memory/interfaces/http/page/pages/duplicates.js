// Duplicates: memories that say the same, side by side, to be merged into one.

import { get, post } from "../api.js";
import { action, finish, memories } from "../changes.js";
import { h, marked } from "../dom.js";
import { count, when } from "../format.js";
import { badge, button, dotted, empty, heading } from "../parts.js";
import { ofUri, place } from "../places.js";

export async function render({ params, signal, announce }) {
	const found = await get("/memories/duplicates/", { full: "true", domain: params.get("domain") }, signal);
	announce(`${count(found.total, "group")} of duplicates`);
	const merge = (groups) => async () => {
		const merges = groups.map(([kept, others]) => ({ kept: kept.uri, superseded: others.map((each) => each.uri) }));
		const { superseded, skipped, change } = await post("/memories/merges/", { merges });
		const into = groups.length === 1 ? ` by ${groups[0][0].summary}` : "";
		finish(`Merged: ${memories(superseded.length)} superseded${into}`, { details: skipped, change });
	};
	const all = found.merges.map((each) => [each.kept, each.superseded]);
	return {
		content: [
			heading("Duplicates"),
			h("p", { class: "muted" }, `Compared ${memories(found.considered)}. Of each group one stays, with the tags of all; the others are archived and name it. No text is rewritten. `,
				h("a", { href: place(["memories"]) }, "All memories")),
			found.skipped.map((each) => h("p", { class: "muted" }, `Left out: ${each}`)),
			found.total === 0 && empty("No two memories are nearly the same in words."),
			all.length > 1 && h("p", null, button(`Merge all ${all.length} groups`, merge(all))),
			h("ol", { class: "hits" }, found.merges.map((each) => group(each, merge))),
		],
	};
}

function group({ kept, superseded }, merge) {
	const [first] = superseded;
	return h("li", { class: "hit", "data-item": "" },
		h("div", { class: "sides" },
			side(kept, first.kept_marks, superseded.length > 1 && "would stay"),
			superseded.map((each) => side(each, each.marks)),
		),
		h("p", { class: "actions" },
			action("Merge into the first", "a", merge([[kept, superseded]]), { "aria-label": `Merge into the first: ${kept.summary}` }),
			superseded.length === 1 && button("Merge into the second", merge([[first, [kept]]]), { "aria-label": `Merge into the second: ${first.summary}` }),
		),
	);
}

function side(memory, marks, label = "") {
	return h("section", { class: "card" },
		h("p", { class: "meta" }, label && [badge(label, "good"), " "], dotted(memory.namespace, when(memory.timestamp), h("bdi", null, memory.domain))),
		h("p", null, h("a", { href: ofUri(memory.uri), "data-entry": "", dir: "auto" }, marked(memory.summary, marks.summary))),
		memory.content && h("p", { class: "text", dir: "auto" }, marked(memory.content, marks.content)),
		memory.tags.length > 0 && h("p", { class: "muted" }, h("bdi", null, memory.tags.map((tag) => `#${tag}`).join(" "))),
	);
}
