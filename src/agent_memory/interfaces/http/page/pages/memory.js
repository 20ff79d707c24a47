// One memory in full, and why it is known: the words it comes from, who was given it, its versions.

import { get, mayAccept } from "../api.js";
import { h, marked } from "../dom.js";
import { count, dayAndClock, when } from "../format.js";
import { badge, empty, facts, heading, prose } from "../parts.js";
import { event, ofUri, place, stay } from "../places.js";
import { decisionButtons, notAccepting } from "./inbox.js";
import { openArchive, relations, tagList, toolbar } from "./memory_tools.js";

const MADE = { cli: "on the command line", hook: "by a hook", http: "over HTTP", mcp: "over MCP", page: "in the page" };

export async function render({ parts: [namespace = "", name = ""], params, signal }) {
	const path = `/memories/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/`;
	const memory = await get(path, { domain: params.get("domain") }, signal);
	const pending = memory.status === "pending";
	const [{ versions }, accepts, source, given] = await Promise.all([
		get(`${path}versions/`, { domain: memory.domain }, signal),
		pending && mayAccept(),
		memory.event_id ? get(`/events/${encodeURIComponent(memory.event_id)}`, {}, signal).catch(() => null) : null,
		get("/injections/", { item: memory.uri, limit: 20 }, signal),
	]);
	const panel = h("div");
	const tools = pending ? decisionButtons(memory, panel, accepts) : toolbar(memory, panel);
	const press = (key) => tools.querySelector(`[data-key=${key}]`)?.click();
	const open = { edit: () => press("e"), archive: () => (pending ? press("d") : openArchive(memory, panel)) }[params.get("act")];
	return {
		title: memory.summary,
		...(open && { arrive: () => (stay(ofUri(memory.uri)), open()) }), // asked once
		content: [
			h("p", { class: "meta" }, badge("Memory", "of-memory"), " ", badge(memory.status), ` ${memory.namespace}`),
			heading(memory.summary),
			pending && !accepts && notAccepting(),
			tools,
			panel,
			memory.content && prose(memory.content),
			tagList(memory),
			h("h2", null, "Why do you know this?"),
			why(memory, source),
			h("h2", null, "Given to agents"),
			givenList(given),
			relations(memory, panel),
			history(versions, memory),
			h("h2", null, "About it"),
			facts([
				["Id", h("code", null, memory.id)],
				["Project", memory.domain],
				["Captured", dayAndClock(memory.timestamp)],
				["Captured by", capturedBy(memory)],
				["Changed", memory.updated_at === memory.timestamp ? null : dayAndClock(memory.updated_at)],
				["Specification", memory.spec],
				["Commit", memory.commit && h("code", null, memory.commit.slice(0, 12))],
				["Used", memory.activation_count ? [`${count(memory.activation_count, "time")}, last `, when(memory.last_accessed)] : "never"],
			]),
		],
	};
}

function why(memory, source) {
	const automatic = memory.tags.includes("auto-captured");
	const how = automatic ? "It was noted automatically from this:" : "It was captured on request, from this:";
	if (source) {
		return [
			h("p", null, how),
			h("blockquote", { dir: "auto" },
				prose(source.text),
				h("p", { class: "muted" },
					`${source.role}, `,
					dayAndClock(source.timestamp_ms),
					" · ",
					h("a", { href: event(source.session_id, source.event_id), "data-entry": "", "data-why": "" }, "See the moment in its session"),
				),
			),
		];
	}
	if (memory.event_id) return h("p", null, "The words that it comes from were forgotten.");
	return h("p", null, `It was captured ${MADE[memory.interface] ?? "by a command"}, not from a conversation.`);
}

const capturedBy = ({ author, agent, interface: by }) =>
	[author, agent && `with ${agent}`, MADE[by] ?? by].filter(Boolean).join(", ");

function givenList(given) {
	if (given.injections.length === 0) return empty("No hook has given it to an agent.");
	return h("ul", { class: "plain" },
		given.injections.map((each) =>
			h("li", null,
				h("a", { href: place(["session", each.session_id], { at: each.timestamp_ms }), "data-entry": "" }, h("bdi", null, each.session_id)),
				` ${each.agent}, ${each.hook}, `,
				when(each.timestamp_ms),
			),
		),
	);
}

function history(versions, memory) {
	if (versions.length < 2) return null;
	const entry = (each) => {
		const title = marked(each.summary, each.marks?.summary ?? []);
		return h("li", { class: "version" },
			h("p", { class: "meta" }, dayAndClock(each.timestamp), ` · ${each.status} · ${capturedBy(each)}`,
				each.changed.length > 0 && ` · then changed: ${each.changed.join(", ")}`),
			h("p", { dir: "auto" }, each.id === memory.id ? [h("strong", null, title), " ", badge("this one", "here")]
				: h("a", { href: ofUri(each.uri), "data-entry": "" }, title)),
			each.content && h("details", null, h("summary", null, "Details"), h("p", { class: "text", dir: "auto" }, marked(each.content, each.marks?.content ?? []))),
		);
	};
	return [h("h2", null, "History"), h("ol", null, versions.map(entry))];
}
