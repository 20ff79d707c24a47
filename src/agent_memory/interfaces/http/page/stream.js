// Slow work of the daemon, followed as it goes on.

import { post, Refused } from "./api.js";

/** Start slow work and call `onStep` for each step of it. Return its result; a failure throws, with its `result`. */
export async function follow(path, body, onStep, signal) {
	const response = await post(path, body, { raw: true, signal });
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) throw new Refused(0, "The connection ended before the work did. Try again.");
		text += value;
		const parts = text.split("\n\n");
		text = parts.pop();
		for (const part of parts) {
			const name = /^event: (.*)$/m.exec(part)?.[1];
			const data = /^data: (.*)$/m.exec(part)?.[1];
			if (name === "progress") onStep(JSON.parse(data));
			if (name !== "complete") continue;
			const result = JSON.parse(data);
			if (!result.success) throw Object.assign(new Refused(0, result.summary), { result: result.result });
			return result;
		}
	}
}
