// Memories: by project, namespace and status.

import { get, post } from "../api.js";
import { action, askToForget, finish, line, memories } from "../changes.js";
import { append, fill, h } from "../dom.js";
import { button, command, empty, heading, more, select } from "../parts.js";
import { place, stay } from "../places.js";
import { hitEntry, readProjects } from "./search.js";

const PAGE = 50;
const NAMESPACES = "decisions learnings blockers progress reviews patterns retrospective inception elicitation research".split(" ");
const STATUSES = ["pending", "active", "resolved", "archived"];

export async function render({ params, signal, announce }) {
	const asked = {};
	for (const name of ["domain", "namespace", "status", "tags"]) asked[name] = params.get(name) ?? "";
	const results = h("div");
	const chosen = new Selection();
	const find = (offset) => get("/memories/", { ...asked, limit: PAGE, offset: offset || "" }, signal);

	const run = async () => {
		stay(place(["memories"], asked));
		const answer = await find(0);
		if (signal.aborted) return;
		chosen.clear();
		const list = h("ol", { class: "hits" }, answer.results.map((hit) => chosen.entry(hit)));
		let token = answer.continuation_token;
		const message = answer.total === 0 ? "No memories match." : memories(answer.total);
		announce(message);
		fill(results, h("p", { class: "muted" }, message, " · ", h("a", { href: place(["duplicates"], { domain: asked.domain }) }, "Find duplicates")), list);
		if (answer.total === 0 && !Object.values(asked).some(Boolean)) {
			append(results, [empty("Save one: ", command('memory capture decisions "Use PostgreSQL"'))]);
		}
		if (token) {
			const load = async () => {
				const next = await find(Number(token));
				list.append(...next.results.map((hit) => chosen.entry(hit)));
				token = next.continuation_token;
				return token !== null;
			};
			results.append(more(load));
		}
	};
	const set = (name) => (value) => {
		asked[name] = value;
		return run();
	};
	const [projects] = await Promise.all([readProjects(signal), run()]);
	const domains = [["", "All"], ["user", "user"], ...projects.map((each) => [`project:${each}`, each])];
	const same = (names) => [["", "All"], ...names.map((each) => [each, each])];
	return {
		content: [
			heading("Memories"),
			h("div", { class: "fields" },
				select("Project", "domain", domains, asked.domain, set("domain")),
				select("Namespace", "namespace", same(NAMESPACES), asked.namespace, set("namespace")),
				select("Status", "status", [["", "All but archived"], ...same(STATUSES).slice(1)], asked.status, set("status")),
				asked.tags && h("p", null, h("a", { href: place(["memories"]) }, `Without the tag ${asked.tags}`)),
			),
			results,
			chosen.bar,
		],
	};
}

/** The memories that are selected, and what can be done with all of them at once. */
class Selection {
	constructor() {
		this.shown = new Map(); // URI to its hit and checkbox
		this.panel = h("div");
		this.number = h("strong", { "aria-live": "polite" });
		const tag = line(64);
		const set = (status, said) => () => this.change({ status }, said);
		const setTag = (name, said) => () => tag.value.trim() && this.change({ [name]: [tag.value.trim()] }, said);
		const forget = () => this.choose() && askToForget(this.panel, this.list().map(({ hit }) => hit));
		this.bar = h("section", { class: "bulk", "aria-label": "Selected memories", hidden: true },
			this.panel,
			h("div", { class: "actions" },
				this.number,
				action("Resolve", "r", set("resolved", "resolved")),
				action("Archive", "a", set("archived", "archived")),
				button("Reactivate", set("active", "active again")),
				h("label", { class: "inline" }, "Tag", tag),
				button("Add tag", setTag("add_tags", "tagged")),
				button("Remove tag", setTag("remove_tags", "without the tag")),
				action("Forget…", "d", forget, { class: "danger" }),
				button("Select all shown", () => this.select([...this.shown.values()], true), { class: "quiet" }),
				button("Select none", () => this.select([...this.shown.values()], false), { class: "quiet" }),
			),
		);
	}

	entry(hit) {
		const change = () => this.select([]);
		const box = h("input", { type: "checkbox", "aria-label": `Select: ${hit.summary}`, "data-key": "x", on: { change } });
		this.shown.set(hit.uri, { hit, box });
		const entry = hitEntry(hit);
		entry.firstElementChild.prepend(box);
		return entry;
	}

	clear() {
		this.shown.clear();
		this.select([]);
	}

	list() {
		return [...this.shown.values()].filter(({ box }) => box.checked);
	}

	/** Return whether any is selected; if none is, select the one that has the focus. */
	choose() {
		const focused = [...this.shown.values()].filter(({ box }) => box.closest("li").contains(document.activeElement));
		if (!this.list().length) this.select(focused, true);
		return this.list().length > 0;
	}

	select(entries, checked) {
		for (const { box } of entries) box.checked = checked;
		const { length } = this.list();
		fill(this.panel);
		this.bar.hidden = length === 0;
		this.number.textContent = `${length} selected`;
	}

	async change(body, said) {
		if (!this.choose()) return;
		fill(this.panel, h("p", { role: "status" }, h("progress", { "aria-label": "Working" }), " Working…"));
		try {
			const { changed, refused, change } = await post("/memories/batch-change/", { ids: this.list().map(({ hit }) => hit.uri), ...body });
			const message = `${memories(changed.length)} ${said}${refused.length ? `, ${refused.length} refused` : ""}`;
			finish(message, { details: refused.map((each) => `Refused: ${each.reason}`), change });
		} finally {
			fill(this.panel);
		}
	}
}
