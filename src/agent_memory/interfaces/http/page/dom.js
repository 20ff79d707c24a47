// Elements. Text is always a text node, so markup in what was recorded is shown and never run.

// Characters that reorder text or hide in it, but not those that join letters and emoji.
const CONTROLS = /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e00ff}])/u;

/** Return an element. `props` are attributes; `on` maps event types to listeners. */
export function h(tag, props, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(props ?? {})) {
		if (name === "on") {
			for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
		} else if (name === "href" && !/^[#/]/.test(value)) {
			throw new Error("links lead to places of this page only");
		} else if (value !== null && value !== undefined && value !== false) {
			element.setAttribute(name, value === true ? "" : value);
		}
	}
	append(element, children);
	return element;
}

/** Append nodes and texts; null and false are left out. */
export function append(element, children) {
	for (const child of children.flat(Infinity)) {
		if (child === null || child === undefined || child === false) continue;
		if (child instanceof Node) element.append(child);
		else element.append(...text(String(child)));
	}
	return element;
}

/** Replace all that is in an element. */
export function fill(element, ...children) {
	element.replaceChildren();
	return append(element, children);
}

/** Return nodes for a text, with its control characters named rather than obeyed. */
export function text(value) {
	return value.split(CONTROLS).map((part, index) => (index % 2 ? control(part) : part));
}

function control(character) {
	if (character === "\r") return "";
	const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
	return h("span", { class: "control" }, `U+${code}`);
}

/** Return nodes for a text with some parts in `mark`. Places count characters, not UTF-16 units. */
export function marked(value, marks) {
	const characters = Array.from(value);
	const nodes = [];
	let reached = 0;
	for (const [start, end] of [...marks].sort((a, b) => a[0] - b[0])) {
		if (start < reached || end <= start) continue;
		nodes.push(characters.slice(reached, start).join(""), h("mark", null, characters.slice(start, end).join("")));
		reached = end;
	}
	nodes.push(characters.slice(reached).join(""));
	return nodes;
}
