// Requests to the daemon. The cookie goes along by itself; a write repeats the token of the session.

import { capital } from "./format.js";

const API = "/api/v1";
let token = null;

export class Refused extends Error {
	constructor(status, message) {
		super(capital(message));
		this.status = status;
	}
}

/** Exchange the code of `memory ui` for a session. */
export async function signIn(code) {
	token = (await ask("/ui/session", { method: "POST", body: JSON.stringify({ code }) })).token;
}

export const readSession = async () => {
	const session = await ask("/ui/session");
	token = session.token;
	return session;
};

export async function signOut() {
	await write("DELETE", "/ui/session");
	token = null;
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

async function write(method, path, body, options = {}) {
	if (token === null) await readSession();
	const used = token;
	const send = () => {
		const headers = { "X-CSRF-Token": token, ...(body !== undefined && { "Content-Type": "application/json" }) };
		return ask(path, { method, headers, body: JSON.stringify(body), ...options });
	};
	try {
		return await send();
	} catch (error) {
		if (error.status !== 403) throw error;
		await readSession(); // another tab may have signed in since
		if (token === used) throw error;
		return send();
	}
}

async function ask(path, { raw = false, ...options } = {}) {
	let response;
	try {
		response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new Refused(0, "The daemon does not answer. Start it with `memory-daemon start`.");
	}
	if (raw && response.ok) return response;
	const body = await response.json().catch(() => ({}));
	const isSignIn = path === "/ui/session" && options.method === "POST";
	if (response.status === 401 && !isSignIn) dispatchEvent(new Event("session-end"));
	if (!response.ok) throw new Refused(response.status, explain(body.detail, response.status));
	return body;
}

function explain(detail, status) {
	if (Array.isArray(detail)) return detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; ");
	return typeof detail === "string" ? detail : `The daemon answered ${status}.`;
}
