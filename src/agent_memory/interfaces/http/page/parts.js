// Parts that several pages have.

import { fill, h } from "./dom.js";

const SHOWN_CHARS = 4000;

export const KINDS = {
  event: "Said",
  segment: "Segment",
  grip: "Grip",
  memory: "Memory",
  fact: "Fact",
};

export const badge = (value, kind = "") => h("span", { class: `badge ${kind}` }, value);

/** Return parts with dots between them; those that are missing are left out. */
export const dotted = (...parts) => parts.filter(Boolean).map((part, index) => (index ? [" · ", part] : part));

export const empty = (...children) => h("p", { class: "empty" }, children);

export const command = (value) => h("code", { class: "command" }, value);

/** Return a word for a shell, as one word whatever is in it. */
export const quote = (word) => (/^[\w.:@][\w.:@-]*$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** Return the heading of a page, which gets the focus when the page opens. */
export const heading = (...children) => h("h1", { tabindex: "-1", dir: "auto" }, children);

export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", { dir: "auto" }, value))),
  );
}

export function select(label, name, options, value, onChange) {
  const known = options.some(([each]) => each === value) ? options : [...options, [value, value]];
  return h(
    "label",
    { class: "field" },
    h("span", null, label),
    h(
      "select",
      { name, on: { change: (event) => onChange(event.target.value) } },
      known.map(([each, shown]) => h("option", { value: each, selected: each === value }, shown)),
    ),
  );
}

export function button(label, onClick, props = {}) {
  return h("button", { type: "button", ...props, on: { click: onClick } }, label);
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

/** Return a text as it was said: code apart, the rest of a very long one on demand. */
export function prose(value, props = {}) {
  const box = h("div", { class: "prose", dir: "auto", ...props });
  const cut = value.length > SHOWN_CHARS * 1.2 ? SHOWN_CHARS : value.length;
  fill(box, blocks(value.slice(0, cut)));
  if (cut < value.length) {
    const all = button(`Show all ${value.length.toLocaleString()} characters`, () => fill(box, blocks(value)));
    box.append(h("p", { class: "more" }, all));
  }
  return box;
}

function blocks(value) {
  return value.split(/^```/m).map((part, index) => {
    if (index % 2 === 0) return part.trim() === "" ? null : h("p", { dir: "auto" }, inline(part.replace(/^\n+|\n+$/g, "")));
    const line = part.indexOf("\n");
    return h("pre", { tabindex: "0" }, h("code", null, part.slice(line + 1).replace(/\n+$/, "")));
  });
}

const inline = (value) =>
  value.split(/`([^`\n]+)`/).map((part, index) => (index % 2 ? h("code", null, part) : part));

/** Return what a hook gave to an agent. */
export function injection(entry, ofUri, sessionLink) {
  return h(
    "details",
    { class: "injection" },
    h(
      "summary",
      { "data-entry": "" },
      h("span", { class: "line" }, entry.head),
      h("span", { class: "muted" }, entry.tail),
    ),
    entry.items.length === 0
      ? h("p", { class: "muted" }, "Nothing that is still stored.")
      : h(
          "ul",
          { class: "plain" },
          entry.items.map((item) => {
            const url = ofUri(item.uri);
            const title = [badge(KINDS[item.kind] ?? item.kind, `of-${item.kind}`), " ", h("bdi", null, item.title)];
            return h("li", null, url ? h("a", { href: url }, title) : title);
          }),
        ),
    sessionLink,
  );
}
