// Health: the daemon, its indexes, hooks, jobs, errors and settings.

import { get, post } from "../api.js";
import { fill, h } from "../dom.js";
import { bytes, count, duration, number, when } from "../format.js";
import { badge, button, command, describeStop, empty, facts, heading, isConnected } from "../parts.js";
import { settingsSection } from "./settings.js";

export async function render({ signal, announce }) {
	const read = (path) => get(path, {}, signal);
	const [status, jobs, hooks, errors, disk, settings, recording] = await Promise.all(
		["/status/", "/jobs/", "/hooks/", "/errors/", "/disk/", "/settings/", "/recording/"].map(read),
	);
	const { indexes } = status;
	const failed = jobs.jobs.filter((job) => job.last_error);
	const stopped = describeStop(recording) || (isConnected(hooks) ? "" : "No agent is connected");
	const good =
		errors.errors.every((each) => each.level !== "error") &&
		status.store.writable && status.damages.length === 0 && !indexes?.trouble && status.warnings.length === 0 && failed.length === 0;
	const warn = (words) => h("p", { class: "warning", dir: "auto" }, words);
	return {
		content: [
			heading("Health"),
			h("p", null, badge(good ? stopped || "All is well" : "Needs a look", good && !stopped ? "good" : "bad"), !isConnected(hooks) && [" ", command("memory install claude-code")]),
			status.warnings.map((warning) => warn(warning.message ?? String(warning))),
			status.damages.map((damage) => warn([damage.what, ". For details, run ", command("memory doctor")])),
			indexes?.trouble && warn(indexes.trouble),
			!status.store.writable && warn(status.store.reason),
			h("div", { class: "columns" },
				h("section", null,
					h("h2", null, "Daemon"),
					facts([
						["Version", status.version],
						["Running for", duration(status.uptime_seconds)],
						["Events", number(status.events)],
						["Address", status.http_addresses.join(", ")],
						["Summarizer", status.summarizer],
						["Last backup", status.backup.made_ms ? when(status.backup.made_ms) : ["none: ", command("memory-daemon admin backup FOLDER")]],
					]),
				),
				h("section", null, h("h2", null, "Indexes"), indexes ? indexFacts(indexes) : warn("The store cannot be read.")),
				h("section", null, h("h2", null, "Disk"), diskFacts(disk.parts)),
			),
			h("h2", null, "Hooks"),
			hookTable(hooks.agents),
			h("h2", null, "Jobs"),
			!jobs.scheduler_running && warn("The scheduler does not run."),
			h("ul", { class: "cards wide" }, jobs.jobs.map((job) => jobCard(job, announce))),
			h("h2", null, "Recent errors"),
			errorList(errors.errors, failed, status.log_path),
			settingsSection(settings),
			h("h2", null, "This browser"),
			h("p", null, "It stays signed in until you close the last tab, or the daemon ends. To sign out all browsers, run ", command("memory-daemon token revoke page"), "."),
			h("p", null, button("Sign out", () => dispatchEvent(new Event("sign-out")))),
		],
	};
}

const waiting = (value) => (value ? `${number(value)} waiting` : "none waiting");

const indexFacts = (indexes) =>
	facts([
		["Words", `${count(indexes.words.documents, "document")}, ${waiting(indexes.words_waiting)}`],
		["Meaning", indexes.vectors ? `${count(indexes.vectors.documents, "document")}, ${waiting(indexes.vectors_waiting)}` : "off"],
		["Model", indexes.model || "none"],
		["Doing", indexes.doing],
		...Object.entries(indexes.waiting_by_kind).map(([kind, waits]) => [`Waiting: ${kind}`, number(waits)]),
	]);

function diskFacts(parts) {
	const total = parts.reduce((sum, part) => sum + part.bytes, 0);
	return facts([...parts.map((part) => [PARTS[part.kind] ?? part.kind, bytes(part.bytes)]), ["All", bytes(total)]]);
}

const PARTS = {
	store: "Store",
	word_index: "Word index",
	vector_index: "Vector index",
	notes: "Git notes of our own",
	logs: "Logs",
	spool: "Waiting hook calls",
	last_contexts: "Last contexts",
	summarizer: "Summarizer",
};

const INSTALLED = {
	installed: ["installed", "good"],
	plugin: ["by its plugin", "good"],
	absent: ["not installed", ""],
	outdated: ["incomplete", "bad"],
	elsewhere: ["another installation", "bad"],
};

/** Return the hooks of each agent, with how long the daemon took for its last calls. */
function hookTable(agents) {
	if (agents.length === 0) {
		return empty("No agent has called a hook since the daemon started. Connect one: ", command("memory install claude-code"));
	}
	const millis = (value) => (value === null ? "" : `${number(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))} ms`);
	const figure = (value) => h("td", { class: "figure" }, value);
	const columns = ["Agent", "Calls", "Half within", "99 % within", "Failed", "Last", "Hooks"];
	const row = (each) => {
		const advice = each.agent && !["installed", "plugin"].includes(each.installed) && command(`memory install ${each.agent}`);
		return h("tr", null,
			h("th", { scope: "row" }, each.title),
			[number(each.calls), millis(each.p50_ms), millis(each.p99_ms), each.calls ? number(each.failed) : ""].map(figure),
			h("td", null, each.last_ms ? when(each.last_ms) : ""),
			h("td", null, each.installed && badge(...(INSTALLED[each.installed] ?? [each.installed])), advice && [" ", advice]),
		);
	};
	return [
		h("div", { class: "scroll", role: "region", "aria-label": "Hooks by agent", tabindex: "0" },
			h("table", { class: "grid" }, h("thead", null, h("tr", null, columns.map((each) => h("th", { scope: "col" }, each)))), h("tbody", null, agents.map(row))),
		),
		h("p", { class: "muted" }, "Since the daemon started; the time that it took itself. Starting the hook adds some milliseconds."),
	];
}

function errorList(errors, failed, log) {
	if (errors.length + failed.length === 0) return empty("None since the daemon started.");
	return [
		h("ul", { class: "plain" },
			failed.map((job) => h("li", { dir: "auto" }, badge("job", "bad"), " ", h("code", null, job.job_name), ` ${job.last_error}`)),
			errors.map((each) =>
				h("li", null, badge(each.level, each.level === "error" ? "bad" : ""), " ", h("code", null, each.name), h("span", { class: "muted" }, ` ${count(each.count, "time")}, last `, when(each.last_ms))),
			),
		),
		h("p", { class: "muted" }, "The details are in ", h("code", null, log), ". For what to do, run ", command("memory doctor"), "."),
	];
}

function jobCard(job, announce) {
	const box = h("li", { class: "card" });
	const disable = (value) => box.querySelectorAll("button").forEach((each) => (each.disabled = value));
	const act = (path) => async (clicked) => {
		const name = clicked.target.textContent;
		disable(true);
		try {
			show(await post(`/jobs/${encodeURIComponent(job.job_name)}/${path}/`));
			announce(`${job.job_name}: done`);
			[...box.querySelectorAll("button")].find((each) => each.textContent === name)?.focus();
		} catch (error) {
			announce(error.message);
			box.append(h("p", { role: "alert", class: "warning" }, error.message));
			disable(false);
		}
	};
	const show = (now) => {
		const state = now.is_paused ? "paused" : now.is_running ? "running" : now.last_error ? "failed" : "";
		fill(
			box,
			h("h3", null, now.job_name, state && [" ", badge(state, state === "failed" ? "bad" : "")]),
			h("p", { class: "muted" },
				now.run_count ? ["last ", when(now.last_run_ms), `, ${number(now.last_duration_ms)} ms`] : "never ran",
				!now.is_paused && now.next_run_ms && [" · next ", when(now.next_run_ms)],
				` · ${count(now.run_count, "run")}`,
				now.error_count > 0 && `, ${count(now.error_count, "error")}`,
			),
			h("p", { class: "actions" },
				button("Run", act("run"), { "aria-label": `Run ${now.job_name}`, "data-entry": "" }),
				now.is_paused
					? button("Resume", act("resume"), { "aria-label": `Resume ${now.job_name}` })
					: button("Pause", act("pause"), { "aria-label": `Pause ${now.job_name}` }),
			),
		);
	};
	show(job);
	return box;
}
