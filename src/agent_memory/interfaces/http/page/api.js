// Requests to the daemon. The cookie goes along by itself; a write repeats the token of the session.

const API = "/api/v1";
let token = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Exchange the code of `memory ui` for a session. */
export async function signIn(code) {
  const answer = await ask("/ui/session", { method: "POST", body: JSON.stringify({ code }) });
  token = answer.token;
}

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

export const post = (path) => write("POST", API + path);

async function write(method, path) {
  token ??= (await ask("/ui/session")).token;
  return ask(path, { method, headers: { "X-CSRF-Token": token } });
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The daemon does not answer. Start it with `memory-daemon start`.");
  }
  const body = await response.json().catch(() => ({}));
  if (response.status === 401 && options.body === undefined) dispatchEvent(new Event("session-end"));
  if (!response.ok) throw new Refused(response.status, explain(body.detail, response.status));
  return body;
}

function explain(detail, status) {
  if (Array.isArray(detail)) return detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; ");
  return typeof detail === "string" ? detail : `The daemon answered ${status}.`;
}
