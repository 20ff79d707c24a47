// What changes one memory: edit, resolve, archive, supersede, tags, relations, forget.

import { post } from "../api.js";
import { action, ask, askToForget, change, field, finish, line, names, pick } from "../changes.js";
import { h } from "../dom.js";
import { button } from "../parts.js";
import { ofUri, place } from "../places.js";

const DONE = { active: "Active again", resolved: "Resolved", archived: "Archived" };

const setStatus = (memory, status) => () => change(memory, { status }, `${DONE[status]}: ${memory.summary}`);

export function toolbar(memory, panel) {
	const { status } = memory;
	return h("p", { class: "actions", role: "group", "aria-label": "Change it" },
		action("Edit", "e", () => openEdit(memory, panel)),
		status === "active" && action("Resolve", "r", setStatus(memory, "resolved")),
		status === "archived" ? null : action("Archive", "a", setStatus(memory, "archived")),
		status === "active" ? null : button("Reactivate", setStatus(memory, "active")),
		status === "archived" ? null : button("Supersede…", () => openSupersede(memory, panel)),
		action("Forget…", "d", () => askToForget(panel, [memory], place(["memories"])), { class: "danger" }),
	);
}

function openEdit(memory, panel) {
	const rows = Math.min(20, 3 + memory.content.split("\n").length);
	const boxes = { summary: line(100), content: h("textarea", { rows, dir: "auto" }), spec: line(200) };
	const labels = { summary: "Summary, in one line", content: "Details", spec: "Specification" };
	const fields = Object.keys(boxes).map((name) => field(labels[name], boxes[name], memory[name] ?? ""));
	const before = Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, box.value])); // as the browser has it
	const save = () => {
		const changed = Object.entries(boxes).filter(([name, box]) => box.value !== before[name]);
		const text = Object.fromEntries(changed.map(([name, box]) => [name, box.value.trim()]));
		return change(memory, { ...text, updated_at: memory.updated_at }, "Saved. It supersedes what it said before.");
	};
	ask(panel, "Edit the memory", fields, "Save", save);
}

export function openArchive(memory, panel) {
	const question = "Archive it? Agents are not given it any more, and search leaves it out.";
	ask(panel, question, names([memory]), "Archive", setStatus(memory, "archived"));
}

function openSupersede(memory, panel) {
	const supersede = (hit) => async () => {
		const { skipped, change } = await post("/memories/merges/", { merges: [{ kept: hit.uri, superseded: [memory.uri] }] });
		if (skipped.length) finish("Nothing changed", { details: skipped });
		else finish(`Superseded by ${hit.summary}`, { change, url: ofUri(hit.uri) });
	};
	pick(panel, "Supersede it by which memory? For a new text, edit it instead.", memory.uri, (hit) =>
		ask(panel, "Archive this memory, and name this one instead?", names([hit]), "Supersede", supersede(hit)));
}

const removeButton = (label, onClick) => button("×", onClick, { class: "quiet small", "aria-label": label });

export function tagList(memory) {
	const box = line(64);
	const add = (event) => {
		event.preventDefault();
		if (box.value.trim()) return change(memory, { add_tags: [box.value.trim()] }, `Tagged ${box.value.trim()}`);
	};
	const may = memory.status !== "pending";
	const entry = (tag) => [
		h("a", { href: place(["memories"], { tags: tag }) }, h("bdi", null, `#${tag}`)),
		may && removeButton(`Remove the tag ${tag}`, () => change(memory, { remove_tags: [tag] }, `The tag ${tag} is removed`)),
	];
	return h("div", { class: "tags" },
		h("ul", { class: "tags", "aria-label": "Tags" }, memory.tags.map((tag) => h("li", null, entry(tag)))),
		may && h("form", { class: "inline", on: { submit: add } }, h("label", { class: "inline" }, "New tag", box), h("button", null, "Add tag")),
	);
}

export function relations(memory, panel) {
	const put = (relates_to, message) => change(memory, { relates_to }, message);
	const relate = (hit) => put([...memory.relates_to, hit.domain === memory.domain ? hit.id : hit.uri], `Related to ${hit.summary}`);
	const may = memory.status !== "pending";
	const entry = (id) => h("li", null, "Relates to ", link(id, memory.domain),
		may && removeButton(`Remove the relation to ${id}`, () => put(memory.relates_to.filter((each) => each !== id), "The relation is removed")));
	return [
		h("h2", null, "Relations"),
		h("ul", { class: "plain" }, memory.relates_to.map(entry),
			memory.superseded_by && h("li", null, "Superseded by ", link(memory.superseded_by, memory.domain))),
		may && h("p", null, button("Relate to another…", () => pick(panel, "Relate it to which memory?", memory.uri, relate))),
	];
}

function link(id, domain) {
	const url = ofUri(id.includes("://") ? id : `subcog://${domain}/${id.replace(":", "/")}`);
	return url ? h("a", { href: url, "data-entry": "" }, h("bdi", null, id)) : h("bdi", null, id);
}
