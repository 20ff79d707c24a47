// Search: one box over everything, with the results and the order of `memory recall`.

import { get } from "../api.js";
import { corrections } from "../changes.js";
import { fill, h, marked } from "../dom.js";
import { count, when } from "../format.js";
import { KINDS, badge, button, dotted, empty, more, select, why } from "../parts.js";
import { event, ofUri, place, stay } from "../places.js";

const PAUSE_MS = 180;
const PAGE = 20;
const DAY_MS = 86_400_000;
const FILTERS = ["project", "kind", "role", "from", "to", "session"];
const WORDS = { words: "Words", meaning: "Meaning" };

export async function render({ params, signal, announce }) {
	const asked = { q: params.get("q") ?? "", scores: params.get("scores") ?? "" };
	for (const name of FILTERS) asked[name] = params.get(name) ?? "";
	const results = h("div", { class: "results" });
	let running = new AbortController();
	let timer = 0;

	const run = async () => {
		clearTimeout(timer);
		running.abort();
		running = new AbortController();
		const mine = running;
		stay(place(["search"], asked));
		document.title = `${asked.q || "Search"} · Agent Memory`;
		try {
			const answer = await find(asked, 0, mine.signal);
			if (mine.signal.aborted || signal.aborted) return;
			show(answer);
		} catch (error) {
			if (mine.signal.aborted || error.status === 401) return;
			fill(results, h("p", { role: "alert", dir: "auto" }, error.message));
		}
		results.ariaBusy = null;
	};
	const set = (name) => (value) => {
		asked[name] = value;
		return run();
	};

	const show = (answer) => {
		const list = h("ol", { class: "hits" }, answer.results.map((hit) => hitEntry(hit)));
		let token = answer.continuation_token;
		const loadMore = async () => {
			const next = await find(asked, Number(token), signal);
			list.append(...next.results.map((hit) => hitEntry(hit)));
			announce(`${count(list.children.length, "result")} shown`);
			token = next.continuation_token;
			return token !== null;
		};
		const message = describe(asked, answer);
		announce(message);
		const focused = results.contains(document.activeElement) && document.activeElement.getAttribute("href");
		fill(
			results,
			h("p", { class: "muted summary" }, message, " ", asked.q && answer.results.length > 0 && scoresButton()),
			answer.warning && h("p", { class: "warning" }, answer.warning),
			answer.results.length > 0 ? list : empty("Try other words, or fewer filters."),
			token && more(loadMore),
		);
		if (focused) (list.querySelector(`[href="${CSS.escape(focused)}"]`) ?? box).focus();
	};
	const scoresButton = () =>
		button(asked.scores ? "Hide scores" : "Show scores", () => set("scores")(asked.scores ? "" : "1"), {
			class: "quiet",
			"aria-pressed": asked.scores ? "true" : "false",
		});

	const box = h("input", {
		type: "search",
		name: "q",
		value: asked.q,
		placeholder: "Why did we choose SQLite?",
		"aria-label": "Search everything recorded",
		autocomplete: "off",
		spellcheck: "false",
		on: {
			input: () => {
				asked.q = box.value;
				results.ariaBusy = "true";
				running.abort();
				clearTimeout(timer);
				timer = setTimeout(run, PAUSE_MS);
			},
		},
	});
	const submit = (submitted) => {
		submitted.preventDefault();
		run();
	};
	const [projects] = await Promise.all([readProjects(signal), run()]);
	const form = h("form", { role: "search", class: "search", on: { submit } },
		box,
		h("details", { class: "filters", open: FILTERS.some((name) => asked[name]) },
			h("summary", null, "Filters"),
			h("div", { class: "fields" },
				select("Project", "project", [["", "All"], ...projects.map((each) => [each, each])], asked.project, set("project")),
				select("Kind", "kind", [["", "All"], ...Object.entries(KINDS)], asked.kind, set("kind")),
				select(
					"Role",
					"role",
					[["", "All"], ...["user", "assistant", "tool", "system"].map((each) => [each, each])],
					asked.role,
					set("role"),
				),
				dateField("From", "from", asked.from, set("from")),
				dateField("To", "to", asked.to, set("to")),
				asked.session && select("Session", "session", [["", "All"], [asked.session, asked.session]], asked.session, set("session")),
			),
		),
	);
	return {
		title: asked.q || "Search",
		content: [h("h1", { class: "unseen", tabindex: "-1" }, "Search"), form, results],
		arrive: () => {
			scrollTo(0, 0);
			box.focus();
		},
	};
}

function find(asked, offset, signal) {
	return get(
		"/search/",
		{
			query: asked.q,
			project: asked.project,
			kinds: asked.kind,
			role: asked.role,
			session_id: asked.session,
			from_timestamp_ms: asked.from && localDay(asked.from),
			to_timestamp_ms: asked.to && localDay(asked.to) + DAY_MS - 1,
			detail: asked.scores ? "full" : "summary",
			limit: PAGE,
			offset: offset || "",
		},
		signal,
	);
}

const localDay = (value) => new Date(`${value}T00:00`).getTime();

export async function readProjects(signal) {
	const { items } = await get("/projects/", { limit: 500 }, signal);
	return items.map((each) => each.name).sort();
}

function describe(asked, answer) {
	if (!asked.q) return "The newest memories. Type to search everything that was recorded.";
	if (answer.total === 0) return "Nothing found.";
	const found = count(answer.total, "result");
	return answer.certain ? found : `${found}; none of them is sure to answer this`;
}

function dateField(label, name, value, onChange) {
	return h("label", { class: "field" },
		h("span", null, label),
		h("input", { type: "date", name, value, on: { change: (changed) => onChange(changed.target.value) } }),
	);
}

/** Return an entry for a hit, which leads to where it was said. */
export function hitEntry(hit) {
	const url = linkOf(hit);
	const passage = hit.passage
		? marked(hit.passage.text, hit.passage.marks)
		: [hit.summary || hit.text || hit.id];
	const title = hit.kind === "segment" && hit.passage ? h("strong", { dir: "auto" }, hit.summary) : null;
	return h("li", { class: "hit", "data-item": "" },
		h("p", { class: "meta" },
			badge(KINDS[hit.kind] ?? hit.kind, `of-${hit.kind}`),
			hit.status && hit.status !== "active" && [" ", badge(hit.status)], " ",
			dotted(
				hit.role || hit.namespace,
				when(hit.timestamp_ms),
				(hit.project || hit.domain) && h("bdi", null, hit.project || hit.domain),
				hit.session_id && h("bdi", null, hit.session_id),
				(hit.kind === "memory" || hit.kind === "fact") && why(hit.uri),
				hit.kind === "memory" && corrections(hit),
			),
		),
		h("a", { href: url, "data-entry": "", class: "passage", dir: "auto" }, title, passage),
		hit.score_parts && scores(hit),
	);
}

function linkOf(hit) {
	if (hit.kind !== "memory" && hit.session_id && hit.event_id) return event(hit.session_id, hit.event_id);
	return ofUri(hit.uri) ?? "#/search";
}

function scores(hit) {
	const parts = Object.entries(hit.score_parts).map(([name, value]) => [WORDS[name] ?? name, value]);
	return h("dl", { class: "scores" },
		[["Score", hit.score], ...parts].map(([name, value]) =>
			h("div", null, h("dt", null, name), h("dd", null, value.toFixed(3))),
		),
	);
}
