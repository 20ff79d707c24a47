// All settings of the daemon, with their values and where those come from.

import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { badge, button, command, empty } from "../parts.js";

/** Return the section of the page Health that lists settings. */
export function settingsSection({ settings, ignored, problem }) {
	const list = h("dl", { class: "facts settings" });
	const message = h("p", { class: "muted", role: "status" });
	const changed = settings.filter(isChanged);
	const show = (words) => {
		const shown = words ? settings.filter((each) => matches(each, words.toLowerCase())) : changed;
		message.textContent = words ? count(shown.length, "setting") : `${changed.length} of ${settings.length} settings are not the default.`;
		fill(list, shown.map(settingRow));
	};
	const field = h("input", { type: "text", autocomplete: "off", on: { input: () => show(field.value.trim()) } });
	const all = button("Show all", () => show("."));
	show("");
	return h("section", null,
		h("h2", null, "Settings"),
		problem && h("p", { class: "warning", dir: "auto" }, problem, ". The values are those of the last start."),
		ignored.map((reason) => h("p", { class: "warning", dir: "auto" }, "Ignored: ", reason)),
		h("div", { class: "fields" }, h("label", { class: "field finder" }, h("span", null, "Find a setting"), field), all),
		message,
		list,
		changed.length === 0 && empty("Change one: ", command("memory config set cli.color false")),
	);
}

const matches = (each, words) => `${each.key} ${each.description} ${each.value}`.toLowerCase().includes(words);

function settingRow(each) {
	return h("div", null,
		h("dt", null, h("code", null, each.key), h("span", { class: "muted" }, each.description)),
		h("dd", null,
			h("code", { dir: "auto" }, format(each.value)), " ",
			h("span", { class: "muted" }, describeSource(each.source), isChanged(each) && `; the default is ${format(each.default)}`),
			each.restart_needed && [" ", badge("after a restart", "bad")],
		),
	);
}

const isChanged = (each) => format(each.value) !== format(each.default);
const format = (value) => (Array.isArray(value) ? value.join(", ") || "none" : value === "" ? "empty" : String(value));

function describeSource(source) {
	if (source === "default") return "by default";
	if (source === "flag") return "set on the command line";
	return source.startsWith("MEMORY_") ? `by the variable ${source}` : `in ${source}`;
}
