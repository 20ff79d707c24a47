// The keyboard: one letter does what a click does.

import { h } from "./dom.js";

const PATIENCE_MS = 1500;
const LIST = [
	["/", "Search"],
	["j, k", "Next, previous in a list"],
	["Enter", "Open"],
	["h, l", "Earlier, later in the timeline"],
	["-, +", "Zoom out, in in the timeline"],
	["w", "Why: the moment that it comes from"],
	["x", "Select in a list of memories"],
	["e, r", "Edit, resolve"],
	["a, d", "Archive or accept, forget or discard"],
	["u", "Undo what was just done"],
	["Esc", "Back"],
	["?", "These keys"],
];
const LINKS = { h: "prev", l: "next", "-": "up", "+": "down", "=": "down" };

/** Listen. `pages` have a letter after `g`, and a URL; `back` goes back. */
export function listen(pages, { search, back }) {
	let sinceG = -Infinity;
	const dialog = buildDialog(pages);
	document.body.append(dialog);
	document.getElementById("help").addEventListener("click", () => dialog.showModal());
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || dialog.open) return;
		if (event.target.closest("input:not([type=checkbox]), select, textarea")) {
			if (event.key === "Escape") event.target.blur();
			else if (event.key === "ArrowDown" && event.target.type === "search") move(1);
			else return;
			event.preventDefault();
			return;
		}
		const afterG = event.timeStamp - sinceG < PATIENCE_MS;
		sinceG = event.key === "g" ? event.timeStamp : -Infinity;
		const page = afterG && pages.find((each) => each.letter === event.key);
		if (page) location.hash = page.url;
		else if (event.key === "/") search();
		else if (event.key === "j") move(1);
		else if (event.key === "k") move(-1);
		else if (LINKS[event.key]) document.querySelector(`[rel=${LINKS[event.key]}]`)?.click();
		else if (event.key === "?") dialog.showModal();
		else if (event.key === "Escape") back();
		else if (event.key === "Enter" && event.target.matches("li[data-entry]")) unfold(event.target);
		else if (!event.repeat && findAction(event)) findAction(event).click();
		else return;
		event.preventDefault();
	});
}

/** Move the focus among the entries of the lists. */
function move(step) {
	const entries = [...document.querySelectorAll("main [data-entry]")].filter((each) => each.checkVisibility());
	const at = entries.indexOf(document.activeElement.closest("[data-entry]"));
	const next = entries[at < 0 ? (step > 0 ? firstSeen(entries) : -1) : at + step];
	next?.focus({ preventScroll: true });
	next?.scrollIntoView({ block: "nearest" });
}

/** Return what a letter does: to the item that has the focus, else to the whole page. */
function findAction({ key, target }) {
	if (!/^[a-z]$/.test(key)) return null;
	const wanted = key === "w" ? "[data-why]" : `[data-key="${key}"]:not([disabled])`;
	const item = target.closest("[data-item], main li, main section")?.querySelector(wanted);
	return item ?? [...document.querySelectorAll(`main ${wanted}`)].find((each) => !each.closest("[data-item]"));
}

/** Open or close what is folded in an entry. */
function unfold(entry) {
	const folded = entry.querySelector("details");
	if (folded) folded.open = !folded.open;
}

function firstSeen(entries) {
	return Math.max(0, entries.findIndex((each) => each.getBoundingClientRect().top >= 0));
}

function buildDialog(pages) {
	const rows = [...LIST, ...pages.map((each) => [`g ${each.letter}`, each.title])];
	return h("dialog", { "aria-labelledby": "keys-title" },
		h("h2", { id: "keys-title", tabindex: "-1", autofocus: true }, "Keys"),
		h("dl", { class: "keys" },
			rows.map(([keys, meaning]) =>
				h("div", null, h("dt", null, keys.split(/, | /).map((key) => h("kbd", null, key))), h("dd", null, meaning)),
			),
		),
		h("form", { method: "dialog" }, h("button", null, "Close")),
	);
}
