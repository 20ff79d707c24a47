// The page: signs in, and shows the place that the URL names.

import { Refused, signIn, signOut } from "./api.js";
import { fill, h } from "./dom.js";
import { listen } from "./keys.js";
import { button, command, heading } from "./parts.js";
import { place, read } from "./places.js";

const load = (name) => () => import(`./pages/${name}.js`);

// Those with a letter are in the navigation.
const PAGES = {
  now: { title: "Now", letter: "n", load: load("now") },
  timeline: { title: "Timeline", letter: "t", load: load("timeline") },
  search: { title: "Search", letter: "s", load: load("search") },
  memories: { title: "Memories", letter: "m", load: load("memories") },
  inbox: { title: "Inbox", letter: "i", load: load("inbox") },
  knowledge: { title: "Knowledge", letter: "k", load: load("knowledge") },
  health: { title: "Health", letter: "h", load: load("health") },
  session: { title: "Session", under: "now", load: load("session") },
  event: { title: "Event", under: "now", load: load("moment") },
  grip: { title: "Grip", under: "timeline", load: load("moment") },
  memory: { title: "Memory", under: "memories", load: load("memory") },
};
const main = document.getElementById("page");
const announcer = document.getElementById("announcer");
const visited = []; // [{hash, scroll, entry}], this place last
let leave = new AbortController();

async function start() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) {
    history.replaceState(null, "", "/#/now");
    try {
      await signIn(code);
    } catch (error) {
      showSignIn(error.message);
      return;
    }
  }
  buildNavigation();
  addEventListener("hashchange", show);
  await show();
}

function buildNavigation() {
  const listed = Object.entries(PAGES).filter(([, page]) => page.letter);
  const links = listed.map(([name, page]) =>
    h("li", null, h("a", { href: place([name]), "data-page": name }, page.title)),
  );
  fill(document.getElementById("navigation"), h("ul", null, links));
  const letters = listed.map(([name, page]) => [name, { letter: page.letter, title: page.title, url: place([name]) }]);
  listen(Object.fromEntries(letters), { search: openSearch, back });
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
  main.setAttribute("aria-busy", "true");
  try {
    if (page === undefined) throw new Refused(404, "This page has no such place.");
    const { render } = await page.load();
    const view = { parts: rest, params, signal, announce, name };
    const shown = await render(view);
    if (signal.aborted || shown === null) return;
    fill(main, shown.content);
    document.title = `${shown.title ?? page.title} · Agent Memory`;
    main.removeAttribute("aria-busy");
    settle(shown, remembered);
  } catch (error) {
    if (signal.aborted) return;
    main.removeAttribute("aria-busy");
    showError(error);
  }
}

/** Put the focus and the scroll position where a reader expects them. */
function settle(shown, remembered) {
  const entry = remembered && [...main.querySelectorAll("[data-entry]")][remembered.entry];
  if (entry) {
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
  if (!now || main.hasAttribute("aria-busy")) return;
  now.hash = location.hash;
  now.scroll = scrollY;
  now.entry = [...main.querySelectorAll("[data-entry]")].indexOf(document.activeElement?.closest("[data-entry]"));
}

function markCurrent(name) {
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function announce(message) {
  announcer.textContent = message;
}

function showError(error) {
  if (error.status === 401) {
    showSignIn("");
    return;
  }
  if (!(error instanceof Refused)) console.error(error);
  fill(
    main,
    heading(error.status === 404 ? "Not found" : "That did not work"),
    h("p", { role: "alert", dir: "auto" }, error.message),
    h("p", null, button("Try again", show)),
  );
}

function showSignIn(reason) {
  main.removeAttribute("aria-busy");
  document.title = "Sign in · Agent Memory";
  fill(
    main,
    heading("Sign in"),
    reason && h("p", { role: "alert" }, reason),
    h("p", null, "This browser has no session. Run ", command("memory ui"), " again: it opens the page with a code."),
    h("p", { class: "muted" }, "On another machine, run ", command("memory ui --print"), " and forward the port."),
  );
}

// What fails after a place was shown, such as the next page of a list.
addEventListener("session-end", () => showSignIn(""));
addEventListener("unhandledrejection", (event) => {
  const { reason } = event;
  if (reason.name === "AbortError" || reason.status === 401) event.preventDefault();
  if (!(reason instanceof Refused) || reason.status === 401) return;
  event.preventDefault();
  main.querySelector(".failure")?.remove();
  main.prepend(h("p", { class: "warning failure", role: "alert", dir: "auto" }, reason.message));
  scrollTo(0, 0);
});

addEventListener("sign-out", async () => {
  await signOut().catch(() => null);
  leave.abort();
  showSignIn("You are signed out.");
});

await start();
