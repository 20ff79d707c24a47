// Parts that several pages have.

import { paint } from "./code.js";
import { fill, h } from "./dom.js";
import { capital } from "./format.js";
import { place } from "./places.js";

const SHOWN_CHARS = 4000;

export const KINDS = {
	event: "Said",
	segment: "Segment",
	grip: "Grip",
	memory: "Memory",
	fact: "Fact",
};

/** Return the kind of a bullet, unless its text says it. */
export function kindBadge(bullet) {
	const kind = capital(bullet.kind);
	return kind !== "Note" && !bullet.text.startsWith(`${kind}:`) ? [badge(kind, `kind-${bullet.kind}`), " "] : null;
}

export const isoDay = (value) => new Date(value).toISOString().slice(0, 10);

/** Return a button that walks to the words that a record comes from. The key `w` presses it. */
export const why = (uri) =>
	button("Why?", () => (location.hash = place(["why"], { uri })), { class: "quiet why", "data-why": "" });

export const badge = (value, kind = "") => h("span", { class: `badge ${kind}` }, value);

/** Return parts with dots between them; those that are missing are left out. */
export const dotted = (...parts) => parts.filter(Boolean).map((part, index) => (index ? [" · ", part] : part));

/** Return why hooks record nothing anywhere; empty if they do. */
export const describeStop = ({ paused, enabled }) => (paused ? "Recording is paused" : enabled ? "" : "Recording is off");

/** Return whether any agent has hooks, or called one. */
export const isConnected = ({ agents }) => agents.some((each) => each.calls || ["installed", "plugin"].includes(each.installed));

export const empty = (...children) => h("p", { class: "empty" }, children);

export const command = (value) => h("code", { class: "command" }, value);

/** Return a word for a shell, as one word whatever is in it. */
export const quote = (word) => (/^[\w.:@][\w.:@-]*$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** Return the heading of a page, which gets the focus when the page opens. */
export const heading = (...children) => h("h1", { tabindex: "-1", dir: "auto" }, children);

export function facts(rows) {
	const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
	return h("dl", { class: "facts" },
		shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", { dir: "auto" }, value))),
	);
}

export function select(label, name, options, value, onChange) {
	const known = options.some(([each]) => each === value) ? options : [...options, [value, value]];
	return h("label", { class: "field" },
		h("span", null, label),
		h("select", { name, on: { change: (event) => onChange(event.target.value) } },
			known.map(([each, shown]) => h("option", { value: each, selected: each === value }, shown)),
		),
	);
}

/** Return a button. While what it does goes on, another click does nothing. */
export function button(label, onClick, props = {}) {
	let busy = false;
	const click = async (event) => {
		if (busy) return;
		busy = true;
		try {
			await onClick(event);
		} finally {
			busy = false;
		}
	};
	return h("button", { type: "button", ...props, on: { click } }, label);
}

/** Return a button that appends the next page, as long as there is one. */
export function more(load, label = "Show more") {
	const box = h("p", { class: "more" });
	const run = async () => {
		const element = box.firstElementChild;
		element.disabled = true;
		if (!(await load())) box.remove();
		else element.disabled = false;
	};
	return fill(box, button(label, run));
}

/** Return a text as it was said: code apart, an excerpt marked, the rest of a very long one on demand. */
export function prose(value, props = {}, excerpt = "") {
	const box = h("div", { class: "prose", dir: "auto", ...props });
	const isShort = value.length <= SHOWN_CHARS * 1.2 || value.slice(SHOWN_CHARS - excerpt.length).includes(excerpt || value);
	const cut = isShort ? value.length : SHOWN_CHARS;
	fill(box, blocks(value.slice(0, cut), excerpt));
	if (cut < value.length) {
		const all = button(`Show all ${value.length.toLocaleString()} characters`, () => fill(box, blocks(value)));
		box.append(h("p", { class: "more" }, all));
	}
	return box;
}

function blocks(value, excerpt = "") {
	return value.split(/^```/m).map((part, index) => {
		if (index % 2 === 0) return part.trim() === "" ? null : h("p", { dir: "auto" }, mark(part.replace(/^\n+|\n+$/g, ""), excerpt, inline));
		const line = part.indexOf("\n");
		const language = part.slice(0, line).trim();
		return h("pre", { tabindex: "0" }, h("code", null, mark(part.slice(line + 1).replace(/\n+$/, ""), excerpt, (code) => paint(code, language))));
	});
}

/** Return nodes for a text with an excerpt in `mark`. */
function mark(value, excerpt, render) {
	const at = excerpt ? value.indexOf(excerpt) : -1;
	if (at < 0) return render(value);
	return [render(value.slice(0, at)), h("mark", null, excerpt), render(value.slice(at + excerpt.length))];
}

/** Return nodes for a text with code between backticks. */
export const inline = (value) =>
	value.split(/`([^`\n]+)`/).map((part, index) => (index % 2 ? h("code", null, part) : part));

/** Return what a hook gave to an agent. */
export function injection(entry, ofUri, sessionLink) {
	return h("details", { class: "injection" },
		h("summary", { "data-entry": "" },
			h("span", { class: "line" }, entry.head),
			h("span", { class: "muted" }, entry.tail),
		),
		entry.items.length === 0
			? h("p", { class: "muted" }, "Nothing that is still stored.")
			: h("ul", { class: "plain" },
					entry.items.map((item) => {
						const url = ofUri(item.uri);
						const title = h("bdi", null, item.title);
						const kind = badge(KINDS[item.kind] ?? item.kind, `of-${item.kind}`);
						return h("li", null, kind, " ", url ? h("a", { href: url, "data-entry": "" }, title) : title, " ", why(item.uri));
					}),
				),
		sessionLink,
	);
}
