// The page: signs in, and shows the place that the URL names.

import { Refused, get, readSession, signIn, signOut } from "./api.js";
import { finish, outcome } from "./changes.js";
import { fill, h } from "./dom.js";
import { capital } from "./format.js";
import { listen } from "./keys.js";
import { button, command, describeStop, heading, inline } from "./parts.js";
import { place, read } from "./places.js";

// Those with a letter are in the navigation.
const PAGES = {
	now: { letter: "n" },
	timeline: { letter: "t", missing: "Nothing was recorded on this day, or it was forgotten." },
	search: { letter: "s" },
	memories: { letter: "m" },
	inbox: { letter: "i" },
	knowledge: { letter: "k" },
	projects: { letter: "p" },
	health: { letter: "h" },
	session: {},
	event: { module: "moment" },
	grip: { under: "timeline", module: "moment" },
	why: { under: "memories", module: "moment" },
	memory: { under: "memories", missing: "This memory was forgotten, or never existed." },
	duplicates: { under: "memories" },
};
const load = (name) => import(`./pages/${PAGES[name].module ?? name}.js`);
const CODE = "#code=";
const main = document.getElementById("page");
const announcer = document.getElementById("announcer");
const visited = []; // [{hash, scroll, entry}], this place last
let leave = new AbortController();

async function start() {
	buildNavigation();
	addEventListener("hashchange", arrive);
	await arrive();
	// A browser does not import again what failed once: have all before the daemon may end.
	for (const name of Object.keys(PAGES)) load(name).catch(() => null);
}

/** Show the place of the URL; if it has a code of `memory ui`, sign in first. */
async function arrive() {
	if (location.hash.startsWith(CODE)) {
		const code = location.hash.slice(CODE.length);
		const isKept = hasTyped();
		history.replaceState(null, "", isKept ? visited.at(-1).hash : "/#/now");
		try {
			await signIn(code);
			if (isKept) return warn("You are signed in again.");
		} catch (error) {
			if (!(await readSession().catch(() => null))) return showSignIn(error.message);
			const note = "This code was used before, or is too old, but this browser is signed in.";
			return isKept ? warn(note) : finish(note);
		}
	}
	return show();
}

function buildNavigation() {
	const listed = Object.keys(PAGES).filter((name) => PAGES[name].letter);
	const links = listed.map((name) => h("li", null, h("a", { href: place([name]), "data-page": name }, capital(name))));
	fill(document.getElementById("navigation"), h("ul", null, links));
	const letters = listed.map((name) => ({ letter: PAGES[name].letter, title: capital(name), url: place([name]) }));
	listen(letters, { search: openSearch, back });
	document.querySelector(".skip").addEventListener("click", (event) => {
		event.preventDefault(); // the part after `#` is the place
		main.focus();
	});
}

function openSearch() {
	const box = document.querySelector("input[type=search]");
	if (box) box.select();
	else location.hash = place(["search"]);
}

function back() {
	if (visited.length > 1) history.back();
	else if (read(location.hash).parts[0] !== "now") location.hash = place(["now"]);
}

/** Show the place of the URL. */
async function show() {
	leave.abort();
	leave = new AbortController();
	const { signal } = leave;
	const { parts, params } = read(location.hash);
	const [name = "now", ...rest] = parts;
	const page = PAGES[name];
	const remembered = visit(location.hash);
	markCurrent(page?.under ?? name);
	main.ariaBusy = "true";
	try {
		if (page === undefined) throw new Refused(404, "This page has no such place.");
		const { render } = await load(name);
		const view = { parts: rest, params, signal, announce, name };
		const shown = await render(view);
		if (signal.aborted || shown === null) return;
		fill(main, outcome(announce), shown.content);
		document.title = `${shown.title ?? capital(name)} · Agent Memory`;
		main.ariaBusy = null;
		settle(shown, remembered);
		get("/recording/", {}, signal).then(showRecording, () => null);
	} catch (error) {
		if (signal.aborted) return;
		main.ariaBusy = null;
		showError(error, page, name);
	}
}

/** Put the focus and the scroll position where a reader expects them. */
function settle(shown, remembered) {
	const done = main.querySelector(".outcome");
	const entry = remembered && [...main.querySelectorAll("[data-entry]")][remembered.entry];
	if (done) {
		scrollTo(0, 0);
		done.focus({ preventScroll: true });
	} else if (entry) {
		entry.focus({ preventScroll: true });
		scrollTo(0, remembered.scroll);
	} else if (shown.arrive) {
		shown.arrive();
	} else {
		scrollTo(0, 0);
		if (visited.length > 1) main.querySelector("h1")?.focus({ preventScroll: true });
	}
}

/** Note where we go. Return what is remembered of that place, if we go back to it. */
function visit(hash) {
	const now = visited.at(-1);
	if (now && visited.length > 1 && visited.at(-2).hash === hash) {
		visited.pop();
		return visited.at(-1);
	}
	if (!now || now.hash !== hash) visited.push({ hash, scroll: 0, entry: -1 });
	return null;
}

// A place is remembered as it is left: its URL may have changed since we came.
document.addEventListener("focusin", remember);
addEventListener("scroll", remember, { passive: true });
function remember() {
	const now = visited.at(-1);
	if (!now || main.ariaBusy) return;
	now.hash = location.hash;
	now.scroll = scrollY;
	now.entry = [...main.querySelectorAll("[data-entry]")].indexOf(document.activeElement?.closest("[data-entry]"));
}

function markCurrent(name) {
	for (const link of document.querySelectorAll("[data-page]")) {
		link.ariaCurrent = link.dataset.page === name ? "page" : null;
	}
}

function announce(message) {
	announcer.textContent = message;
}

/** Show on every page that nothing is recorded. */
function showRecording(recording) {
	const link = document.getElementById("recording");
	link.textContent = describeStop(recording);
	link.hidden = !link.textContent;
}

function showError(error, page, name) {
	if (!(error instanceof Refused)) console.error(error);
	const isMissing = error.status === 404;
	const missing = isMissing && page?.missing;
	const list = page?.under ?? name;
	fill(
		main,
		heading(isMissing ? "Not found" : "That did not work"),
		h("p", { role: "alert", dir: "auto" }, inline(missing || error.message)),
		h("p", null, missing ? h("a", { href: place([list]) }, capital(list)) : button("Try again", show)),
	);
}

/** Say it above what is shown, which stays. */
function warn(...children) {
	main.querySelector(".failure")?.remove();
	main.prepend(h("p", { class: "warning failure", role: "alert", dir: "auto" }, children));
	scrollTo(0, 0);
}

/** Return whether this place has words that a reader typed and would lose. */
const hasTyped = () => !main.ariaBusy && [...main.querySelectorAll("textarea, input[type=text]")].some((box) => box.value);

function showSignIn(reason) {
	if (hasTyped()) {
		warn(reason || "This browser has no session any more.", " Nothing you typed is lost: run ", command("memory ui"), ", then try again here.");
		return;
	}
	leave.abort();
	main.ariaBusy = null;
	document.title = "Sign in · Agent Memory";
	fill(
		main,
		h("div", { class: "sign-in" }, heading("Sign in")),
		reason && h("p", { role: "alert" }, inline(reason)),
		h("p", null, "This browser has no session. Run ", command("memory ui"), " again: it opens the page with a code."),
		h("p", { class: "muted" }, "On another machine, run ", command("memory ui --print"), " and forward the port."),
		h("p", null, button("Try again", show)),
	);
}

// What fails after a place was shown, such as the next page of a list.
addEventListener("session-end", () => showSignIn(""));
addEventListener("session-begin", () => main.querySelector(".sign-in") && show());
addEventListener("unhandledrejection", (event) => {
	const { reason } = event;
	if (reason.name === "AbortError" || reason.status === 401) event.preventDefault();
	if (!(reason instanceof Refused) || reason.status === 401) return;
	event.preventDefault();
	warn(inline(reason.message));
});

addEventListener("recording", (event) => showRecording(event.detail));
addEventListener("show-again", show);
addEventListener("sign-out", async () => {
	await signOut().catch(() => null);
	fill(main);
	showSignIn("You are signed out.");
});

await start();
