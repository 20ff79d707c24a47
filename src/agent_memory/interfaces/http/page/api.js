// Requests to the daemon, each with the token of the session. There is no cookie: a browser sends
// those of this host to every port of it.

import { capital } from "./format.js";

const API = "/api/v1";
const SESSION = "/ui/session";
const KEY = "token";
const WAIT_MS = 500;
// Each tab keeps the token for itself, so it is gone with the last one. A new tab asks the others.
const tabs = new BroadcastChannel("session");
const refused = new Set();
let token = sessionStorage.getItem(KEY);

export class Refused extends Error {
	constructor(status, message) {
		super(capital(message));
		this.status = status;
	}
}

tabs.onmessage = ({ data }) => {
	if (data.isWanted) {
		if (token) tabs.postMessage({ token });
	} else if ((data.isNew || !token) && !refused.has(data.token)) {
		keep(data.token);
		dispatchEvent(new Event("session-begin"));
	}
};

function keep(value) {
	token = value;
	if (value) sessionStorage.setItem(KEY, value);
	else sessionStorage.removeItem(KEY);
}

/** Ask the other tabs for their token. One that answers late is taken too. */
function findToken() {
	tabs.postMessage({ isWanted: true });
	return new Promise((resolve) => {
		addEventListener("session-begin", resolve, { once: true });
		setTimeout(resolve, WAIT_MS);
	});
}

/** Exchange the code of `memory ui` for a session, in all tabs. */
export async function signIn(code) {
	keep((await ask(SESSION, { method: "POST", body: JSON.stringify({ code }) })).token);
	tabs.postMessage({ token, isNew: true });
}

export const readSession = () => ask(SESSION);

export async function signOut() {
	await write("DELETE", SESSION).finally(() => keep(null));
}

export function get(path, params = {}, signal = undefined) {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params)) {
		if (value !== "" && value !== null && value !== undefined) query.append(name, value);
	}
	const tail = query.size ? `?${query}` : "";
	return ask(`${API}${path}${tail}`, { signal });
}

export const remove = (path, params) => write("DELETE", `${API}${path}?${new URLSearchParams(params)}`);

/** Return whether this session may accept what awaits review. */
export const mayAccept = async () => (await readSession()).may_accept;

/** Send a write. A path under `/stream` is as it is; `raw` returns the response itself. */
export const post = (path, body, options) => write("POST", path.startsWith("/stream") ? path : API + path, body, options);
export const put = (path, body) => write("PUT", API + path, body);
export const patch = (path, body) => write("PATCH", API + path, body);

const write = (method, path, body, options) =>
	ask(path, { method, body: JSON.stringify(body), ...options });

/** Return the response, whose body is a stream. */
export const open = (path, signal) => ask(path, { raw: true, signal });

async function ask(path, { raw = false, again = false, ...options } = {}) {
	const isSignIn = path === SESSION && options.method === "POST";
	if (!token && !isSignIn) await findToken();
	const used = token;
	const headers = { ...(used && { Authorization: `Bearer ${used}` }), ...(options.body && { "Content-Type": "application/json" }) };
	let response;
	try {
		response = await fetch(path, { credentials: "omit", cache: "no-store", headers, ...options });
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new Refused(0, "The daemon does not answer. Start it with `memory-daemon start`.");
	}
	if (response.status === 401 && !isSignIn) {
		refused.add(used);
		if (token === used) keep(null);
		if (used && !token) await findToken();
		if (token && !again) return ask(path, { raw, again: true, ...options });
		dispatchEvent(new Event("session-end"));
	}
	if (raw && response.ok) return response;
	const body = await response.json().catch(() => ({}));
	if (!response.ok) throw new Refused(response.status, explain(body.detail, response.status));
	return body;
}

function explain(detail, status) {
	if (Array.isArray(detail)) return detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; ");
	return typeof detail === "string" ? detail : `The daemon answered ${status}.`;
}
