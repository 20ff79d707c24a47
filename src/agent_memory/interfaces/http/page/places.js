// Places of the page: each has a URL, in the part after `#`.

/** Return the URL of a place: `place(["session", id], {event})`. */
export function place(parts, params = {}) {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(params)) {
		if (value !== "" && value !== null && value !== undefined && value !== false) query.set(name, value);
	}
	return `#/${parts.map(encodeURIComponent).join("/")}${query.size ? `?${query}` : ""}`;
}

/** Return the parts and parameters of the URL. */
export function read(hash) {
	const [path, query = ""] = split(hash.replace(/^#\/?/, ""));
	const parts = path.split("/").filter(Boolean).map(decode);
	return { parts, params: new URLSearchParams(query) };
}

function split(value) {
	const at = value.indexOf("?");
	return at < 0 ? [value] : [value.slice(0, at), value.slice(at + 1)];
}

function decode(value) {
	try {
		return decodeURIComponent(value);
	} catch {
		return value;
	}
}

/** Change the URL of this place, without leaving it. */
export function stay(url) {
	history.replaceState(history.state, "", url);
}

export const event = (sessionId, eventId) => place(["session", sessionId], { event: eventId });

/** Return where a record can be seen, by its URI; null if nowhere. */
export function ofUri(uri, params = {}) {
	const memory = /^subcog:\/\/(.+)\/([^/]+)\/([^/]+)$/.exec(uri);
	if (memory) return place(["memory", memory[2], memory[3]], { domain: memory[1], ...params });
	const own = /^memory:\/\/([^/]+)\/(.+)$/.exec(uri);
	const name = own && decode(own[2]);
	switch (own?.[1]) {
		case "events":
			return place(["event", name]);
		case "sessions":
			return place(["session", name]);
		case "grips":
			return place(["grip", name]);
		case "toc":
			return place(["timeline", name]);
		case "facts":
			return place(["knowledge", "facts", name]);
		case "lessons":
			return place(["knowledge", "lessons", name]);
		default:
			return null;
	}
}
