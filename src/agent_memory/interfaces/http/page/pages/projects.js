// Projects: what hooks record, and how memories are shared.

import { get, patch, post, put } from "../api.js";
import { append, fill, h } from "../dom.js";
import { count, dayAndClock, number, when } from "../format.js";
import { badge, button, command, dotted, empty, facts, heading, isConnected, more, quote, select } from "../parts.js";
import { place } from "../places.js";
import { follow } from "../stream.js";

const PAGE = 50;
const MODES = [
	["all", "All projects, but those switched off"],
	["opt-in", "Only projects that I switch on"],
];

export async function render({ signal, announce }) {
	const read = (offset) => get("/projects/", { limit: PAGE, offset: offset || "" }, signal);
	const [page, recording, hooks] = await Promise.all([read(0), get("/recording/", {}, signal), get("/hooks/", {}, signal)]);
	const card = (each) => projectCard(each, announce, signal);
	const box = h("div");
	const show = (first) => {
		const list = h("ul", { class: "cards broad" }, first.items.map(card));
		const load = async () => {
			const next = await read(list.children.length);
			list.append(...next.items.map(card));
			return list.children.length < next.total;
		};
		fill(box, list, first.total > first.items.length && more(load));
	};
	show(page);
	const reload = async () => show(await read(0));
	return {
		content: [
			heading("Projects"),
			recordingPanel(recording, isConnected(hooks), reload, announce),
			h("h2", null, count(page.total, "project")),
			page.total === 0
				? empty("No project yet. Connect an agent and work in a folder: ", command("memory install claude-code"))
				: box,
			h("h2", null, "Outside of projects"),
			h("ul", { class: "cards broad" }, page.others.map(card)),
		],
	};
}

/** Return what applies to all projects: where hooks record, and the pause. */
function recordingPanel(first, connected, reload, announce) {
	const box = h("section", { class: "card panel", "aria-label": "Recording" });
	const act = (run, said) => async (clicked) => {
		if (isSecond(clicked)) return;
		try {
			show(await run());
			dispatchEvent(new CustomEvent("recording", { detail: first }));
			announce(said);
			box.querySelector("button")?.focus();
			await reload();
		} catch (error) {
			show(first, error.message);
		}
	};
	const pause = (seconds) => act(() => post("/recording/pause/", { seconds }), "Recording is paused");
	const setMode = (mode) => act(() => patch("/recording/", { mode }), "Changed where hooks record")();
	const show = (now, problem = "") => {
		first = now;
		const until = now.until_ms ? ["until ", dayAndClock(now.until_ms)] : "until you resume";
		fill(
			box,
			h("p", null, now.paused ? [badge("paused", "bad"), " Nothing is recorded anywhere, ", until, "."] : !now.enabled
				? [badge("off", "bad"), " Nothing is recorded: hooks.enabled is false. ", command("memory config set hooks.enabled true")]
				: connected
					? [badge("recording", "good"), " Hooks record what your agents do."]
					: ["No agent is connected. ", command("memory install claude-code")]),
			now.problem && h("p", { class: "warning", dir: "auto" }, now.problem),
			problem && h("p", { class: "warning", role: "alert", dir: "auto" }, problem),
			h("div", { class: "fields" },
				select("Record in", "mode", MODES, now.mode, setMode),
				h("p", { class: "actions" },
					now.paused
						? button("Resume", act(() => post("/recording/resume/"), "Recording resumed"))
						: [button("Pause for an hour", pause(3600)), button("Pause", pause(null))],
				),
			),
		);
	};
	show(first);
	return box;
}

function projectCard(first, announce, signal) {
	const box = h("li", { class: "card" });
	const isProject = first.domain.startsWith("project:");
	const title = isProject ? first.name : first.domain === "user" ? "Your own memories" : first.name;

	const switchTo = (recorded) => async (clicked) => {
		if (isSecond(clicked)) return;
		disable();
		try {
			show(await put(`/projects/${encodeURIComponent(first.name)}/recording/`, { recorded }));
			announce(`Recording of ${first.name} is ${recorded ? "on" : "off"}`);
			box.querySelector("button")?.focus();
		} catch (error) {
			show(first, h("p", { class: "warning", role: "alert", dir: "auto" }, error.message));
		}
	};
	const readAgain = async () => {
		if (isProject) return get(`/projects/${encodeURIComponent(first.name)}/`, {}, signal);
		const { others } = await get("/projects/", { limit: 1 }, signal);
		return others.find((each) => each.domain === first.domain) ?? first;
	};
	const sync = async () => {
		disable();
		const words = h("span", null, "starting");
		const bar = h("progress", { "aria-label": `Sync of ${title}` });
		box.append(h("p", { class: "progress", role: "status" }, bar, " ", words));
		const onStep = (step) => {
			words.textContent = step.total ? `${step.phase}: ${number(step.current)} of ${number(step.total)}` : step.phase;
			if (step.total) Object.assign(bar, { max: step.total, value: step.current });
			else bar.removeAttribute("value");
		};
		let outcome;
		try {
			const done = await follow("/stream/sync", { domain: first.domain, remote: true }, onStep, signal);
			outcome = h("p", { class: "good", role: "status" }, describeSync(done.result.domains[0]));
		} catch (error) {
			if (signal.aborted) return;
			const reason = error.result?.failed[0]?.reason ?? error.message;
			const check = first.folders.length > 0 && ["Check it, then sync again: ", command(`git -C ${quote(first.folders[0])} remote -v`)];
			outcome = h("div", { class: "warning", role: "alert" }, h("p", { dir: "auto" }, "Not synced: ", reason, "."), check && h("p", null, check));
		}
		show(await readAgain().catch(() => first), outcome);
		[...box.querySelectorAll("button")].at(-1)?.focus();
	};
	const disable = () => {
		for (const each of box.querySelectorAll("button")) each.disabled = true;
	};
	const show = (now, outcome = null) => {
		first = now;
		const memories = place(["memories"], { domain: now.domain });
		fill(
			box,
			h("h3", { dir: "auto" }, title, now.recording && [" ", badge(...state(now.recording))]),
			h("p", { class: "muted" },
				dotted(
					isProject && count(now.sessions, "session"),
					isProject && count(now.events, "event"),
					now.memories ? h("a", { href: memories, "data-entry": "" }, count(now.memories, "memory", "memories")) : "no memories",
					now.to_review > 0 && h("a", { href: place(["inbox"]) }, `${number(now.to_review)} to review`),
					now.last_ms && ["last ", when(now.last_ms)],
				),
			),
			facts([
				["Folder", now.folders.length ? now.folders.map((each) => h("code", { class: "path" }, each)) : null],
				["Recording", isProject ? explain(now.recording) : null],
				["Sharing", explainSharing(now)],
				["Remote", now.remote && dotted(h("bdi", null, now.remote), now.origin && now.origin !== now.remote && h("bdi", null, now.origin))],
				["Synced", now.last_sync_ms ? when(now.last_sync_ms) : "never"],
				["Waiting", now.pending === 0 ? null : `${count(now.pending, "change")} not in the notes yet`],
			]),
			h("p", { class: "actions" },
				now.recording?.recorded && button("Switch off", switchTo(false), { "aria-label": `Switch off recording of ${title}` }),
				["excluded", "not-in-projects"].includes(now.recording?.reason) &&
					button("Switch on", switchTo(true), { "aria-label": `Switch on recording of ${title}` }),
				now.remote && button("Sync now", sync, { "aria-label": `Sync ${title} now` }),
			),
		);
		if (outcome) append(box, [outcome]);
	};
	show(first);
	return box;
}

/** Return whether it is the second click of a double click: the first one changed what the button does. */
const isSecond = (clicked) => clicked?.detail > 1;

const state = (recording) => (recording.recorded ? ["recorded", "good"] : [recording.reason === "paused" ? "paused" : "off", "bad"]);

function explain(recording) {
	if (recording === null) return "by programs, which decide themselves what they send";
	const detail = h("bdi", null, recording.detail);
	switch (recording.reason) {
		case "on":
			return "on";
		case "paused":
			return "paused, as everywhere: resume above";
		case "hooks-disabled":
			return "off: hooks.enabled is false";
		case "excluded":
			return ["off: hooks.exclude has ", h("code", null, recording.detail)];
		case "not-in-projects":
			return "off: you have not switched it on";
		case "memoryignore":
			return ["off, by ", detail];
		default:
			return ["off, to be safe: ", detail];
	}
}

const advise = (words, line) => [words, h("span", { class: "advice" }, command(line))];

function explainSharing(project) {
	if (project.domain === "user") {
		if (project.remote) return "with your own machines, by the remote";
		return advise("on this machine only. To share them:", "memory config set memories.user_remote ADDRESS");
	}
	if (!project.domain.startsWith("project:")) return "with your organization";
	if (project.remote) return "in the git notes of this clone";
	if (project.folders.length === 0) return "on this machine only";
	const git = `git -C ${quote(project.folders[0])}`;
	if (project.shared) return advise("in the git notes of this clone, which has no remote. Add one:", `${git} remote add origin ADDRESS`);
	return advise("on this machine only. To share them, make it a git repository with a commit:", `${git} init`);
}

function describeSync(done) {
	const parts = [
		[done.imported, "imported"],
		[done.written, "written to notes"],
		[done.moved, "moved to the current commit"],
	].filter(([value]) => value).map(([value, words]) => `${number(value)} ${words}`);
	if (done.fetched) parts.push("fetched");
	if (done.pushed) parts.push("pushed");
	const problems = done.problems.length ? `; ${count(done.problems.length, "note")} could not be read` : "";
	return `Synced: ${parts.join(", ") || "nothing was new"}${problems}.`;
}
