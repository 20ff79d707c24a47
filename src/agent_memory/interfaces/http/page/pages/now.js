// Now: the sessions, what is being recorded, and what agents were given.

import { get, open } from "../api.js";
import { fill, h } from "../dom.js";
import { clock, count, number, when } from "../format.js";
import { badge, command, describeStop, dotted, empty, heading, injection, more } from "../parts.js";
import { event, ofUri, place } from "../places.js";
import { events } from "../stream.js";

const SESSIONS = 8;
const FEED = 40;
const INJECTIONS = 15;
const RETRY_MS = 3000;

export async function render({ signal }) {
	const read = () => Promise.all([get("/sessions/", { limit: SESSIONS }, signal), get("/injections/", { limit: INJECTIONS }, signal), get("/status/", {}, signal)]);
	const [[sessions, given, status], recording] = await Promise.all([read(), get("/recording/", {}, signal)]);
	const totals = h("p", { class: "muted" }, describeTotals(status, sessions));
	const list = h("ul", { class: "cards" }, sessions.items.map(sessionCard));
	const injections = h("div", null, injectionList(given, signal));
	const live = h("p", { class: "live" }, "Connecting…");
	const feed = h("ol", { class: "feed", "aria-label": "Recorded since this page is open" });
	const waiting = empty("What is recorded from now on appears here.");
	watchEvents(signal, live, describeStop(recording), (each) => {
		waiting.remove();
		feed.prepend(feedEntry(each));
		while (feed.children.length > FEED) feed.lastChild.remove();
		refresh(read, totals, list, injections, signal);
	});
	return {
		content: [
			heading("Now"),
			totals,
			status.warnings.map((warning) => h("p", { class: "warning" }, warning.message ?? String(warning))),
			h("div", { class: "halves" },
				h("section", null, h("h2", null, "Sessions"), sessions.total ? moreSessions(list, sessions, signal) : noSessions()),
				h("div", null,
					h("section", null, h("h2", null, "Being recorded"), live, feed, waiting),
					h("section", null, h("h2", null, "Given to agents"), injections),
				),
			),
		],
	};
}

const describeTotals = (status, sessions) => [
	`${count(status.events, "event")} in ${count(sessions.total, "session")} · `,
	status.to_review > 0
		? h("a", { href: place(["inbox"]) }, count(status.to_review, "memory to review", "memories to review"))
		: "nothing to review",
];

const noSessions = () => empty("No session yet. Connect an agent: ", command("memory install claude-code"));

function moreSessions(list, first, signal) {
	if (first.total <= SESSIONS) return list;
	const load = async () => {
		const page = await get("/sessions/", { limit: 50, offset: list.children.length }, signal);
		list.append(...page.items.map(sessionCard));
		return list.children.length < page.total;
	};
	return [list, more(load)];
}

function sessionCard(session) {
	const title = session.summary || session.session_id;
	return h("li", { class: "card", "data-session": session.session_id },
		h("h3", null, h("a", { href: place(["session", session.session_id]), "data-entry": "", dir: "auto" }, title)),
		h("p", { class: "muted" },
			session.running && [badge("running", "running"), " "],
			[session.project, session.agent].filter(Boolean).map((each) => [h("bdi", null, each), " · "]),
			`${count(session.events, "event")} · `,
			when(session.last_event_at),
		),
	);
}

/** Show the newest sessions and injections again, at most once a second; not those in use. */
let planned = 0;
function refresh(read, totals, list, injections, signal) {
	if (planned) return;
	planned = setTimeout(async () => {
		planned = 0;
		if (signal.aborted) return;
		const [sessions, given, status] = await read().catch(() => []);
		if (!status) return;
		const isIdle = (box) => !box.contains(document.activeElement) && !box.querySelector("[open]");
		if (isIdle(totals)) fill(totals, describeTotals(status, sessions));
		if (isIdle(list) && list.children.length <= SESSIONS) fill(list, sessions.items.map(sessionCard));
		if (isIdle(injections) && injections.querySelectorAll(".injection").length <= INJECTIONS) fill(injections, injectionList(given, signal));
	}, 1000);
}

/** Watch the stream of events until the page is left. */
function watchEvents(signal, live, stopped, onEvent) {
	let current = null;
	const show = (isLive, ...words) => {
		fill(live, words);
		live.classList.toggle("on", isLive);
	};
	const connect = async () => {
		current?.abort();
		if (document.hidden || signal.aborted) return; // a browser allows few connections
		const own = (current = new AbortController());
		try {
			const stream = await open("/stream/events", own.signal);
			show(!stopped, stopped || "Live");
			for await (const [name, data] of events(stream)) if (name === "event") onEvent(data);
		} catch (error) {
			if (!own.signal.aborted) console.info(error);
		}
		if (own.signal.aborted) return;
		show(false, "Not connected. The daemon may be stopped: ", command("memory-daemon start"));
		setTimeout(() => own === current && connect(), RETRY_MS);
	};
	document.addEventListener("visibilitychange", connect, { signal });
	signal.addEventListener("abort", () => current?.abort());
	connect();
}

function feedEntry(each) {
	const who = each.role === "tool" ? each.metadata.tool_name || "tool" : each.role;
	const words = each.text.split("\n", 1)[0].slice(0, 200) || each.event_type.replaceAll("_", " ");
	return h("li", null,
		h("span", { class: "muted" }, clock(each.timestamp_ms), ` ${who} `),
		h("a", { href: event(each.session_id, each.event_id), "data-entry": "", dir: "auto" }, words),
	);
}

function injectionList(first, signal) {
	if (first.injections.length === 0) return empty("No hook has given anything to an agent yet.");
	const list = h("div", null, first.injections.map(injectionEntry));
	let token = first.continuation_token;
	const load = async () => {
		const page = await get("/injections/", { limit: 50, continuation_token: token }, signal);
		list.append(...page.injections.map(injectionEntry));
		token = page.continuation_token;
		return token !== null;
	};
	return [list, token && more(load)];
}

function injectionEntry(entry) {
	const head = [h("bdi", null, entry.project || entry.session_id), ` · ${entry.hook}`];
	const tail = dotted(
		`${number(entry.tokens)} tokens`,
		entry.items.length > 0 && count(entry.items.length, "item"),
		when(entry.timestamp_ms),
	);
	const link = h("p", null, h("a", { href: place(["session", entry.session_id], { at: entry.timestamp_ms }) }, "See the session"));
	return injection({ head, tail, items: entry.items }, ofUri, link);
}
