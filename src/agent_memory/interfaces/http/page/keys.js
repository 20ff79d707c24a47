// The keyboard: one letter does what a click does.

import { h } from "./dom.js";

const PATIENCE_MS = 1500;
const LIST = [
  ["/", "Search"],
  ["j, k", "Next, previous in a list"],
  ["Enter", "Open"],
  ["h, l", "Earlier, later in the timeline"],
  ["Esc", "Back"],
  ["?", "These keys"],
];

/** Listen. `pages` maps a letter after `g` to a URL; `back` goes back. */
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
    const page = afterG && Object.values(pages).find((each) => each.letter === event.key);
    if (page) location.hash = page.url;
    else if (event.key === "/") search();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "h") document.querySelector("[rel=prev]")?.click();
    else if (event.key === "l") document.querySelector("[rel=next]")?.click();
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "Escape") back();
    else if (event.key === "Enter" && event.target.matches("li[data-entry]")) unfold(event.target);
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

/** Open or close what is folded in an entry. */
function unfold(entry) {
  const folded = entry.querySelector("details");
  if (folded) folded.open = !folded.open;
}

function firstSeen(entries) {
  return Math.max(0, entries.findIndex((each) => each.getBoundingClientRect().top >= 0));
}

function buildDialog(pages) {
  const rows = [...LIST, ...Object.values(pages).map((each) => [`g ${each.letter}`, each.title])];
  return h(
    "dialog",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl",
      { class: "keys" },
      rows.map(([keys, meaning]) =>
        h("div", null, h("dt", null, keys.split(/, | /).map((key) => h("kbd", null, key))), h("dd", null, meaning)),
      ),
    ),
    h("form", { method: "dialog" }, h("button", null, "Close")),
  );
}
