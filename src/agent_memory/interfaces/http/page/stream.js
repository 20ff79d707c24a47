// Server-sent events. An EventSource could not send the token.

import { post, Refused } from "./api.js";

/** Yield the name and the data of each event, until the stream ends. */
export async function* events(response) {
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text += value;
		const parts = text.split("\n\n");
		text = parts.pop();
		for (const part of parts) {
			const name = /^event: (.*)$/m.exec(part)?.[1];
			if (name) yield [name, JSON.parse(/^data: (.*)$/m.exec(part)[1])];
		}
	}
}

/** Start slow work and call `onStep` for each step of it. Return its result; a failure throws, with its `result`. */
export async function follow(path, body, onStep, signal) {
	for await (const [name, data] of events(await post(path, body, { raw: true, signal }))) {
		if (name === "progress") onStep(data);
		if (name !== "complete") continue;
		if (!data.success) throw Object.assign(new Refused(0, data.summary), { result: data.result });
		return data;
	}
	throw new Refused(0, "The connection ended before the work did. Try again.");
}
