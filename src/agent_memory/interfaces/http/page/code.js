// Colours for code.

import { h } from "./dom.js";

const MOST = 20_000; // characters; a longer text has no colours
const words = (text) => text.split(" ");
const COMMENTS = new Map([
	...words("py python sh bash shell console rb yaml yml toml make ini").map((each) => [each, ["#"]]),
	...words("js ts jsx tsx javascript typescript java c h cpp go rs rust css json").map((each) => [each, ["//", "/*"]]),
	...words("sql lua").map((each) => [each, ["--"]]),
	...words("html xml").map((each) => [each, ["<!--"]]),
]);
const ENDS = { "/*": "*/", "<!--": "-->" };
const PLAIN = words("json yaml yml toml ini html xml css"); // no keywords
const KEYWORDS = new Set(
	words(
		"and as async await break case catch class const continue def default do done elif else enum except export extends false " +
			"False fi finally fn for from func function if impl import in is let match mut new nil None not null or package pass " +
			"pub public raise return self static struct switch then this throw true True try type use var void while with yield",
	),
);
const TOKEN = /(["'`])|(\/\/|\/\*|#|--|<!--)|(?<![\w.])\d[\w.]*|[A-Za-z_$][\w$]*/g;

/** Return nodes for code. Without a language, only a diff and JSON have colours. */
export function paint(text, language = "") {
	if (text.length > MOST) return [text];
	if (language === "diff" || /^(diff --git |--- .*\n\+\+\+ |@@ -)/m.test(text)) return text.split(/(?<=\n)/).map(line);
	const name = !language && /^\s*[[{]\s*["{[\]}]/.test(text) ? "json" : language.toLowerCase();
	return COMMENTS.has(name) ? tokens(text, name) : [text];
}

/** Return the language of the first file that a line names. */
export const guess = (value) => /\.(\w{1,4})(?![\w/])/.exec(value.slice(0, 400))?.[1] ?? "";

const span = (kind, text) => h("span", { class: `code-${kind}` }, text);

function line(text) {
	if (/^(@@|diff |index |\+\+\+ |--- )/.test(text)) return span("keyword", text);
	if (text[0] === "+") return span("added", text);
	return text[0] === "-" ? span("removed", text) : text;
}

function tokens(text, language) {
	const nodes = [];
	const unclosed = {}; // by quote: no string begins before this place
	let reached = 0;
	TOKEN.lastIndex = 0;
	for (let found = TOKEN.exec(text); found; found = TOKEN.exec(text)) {
		const [whole, quote, comment] = found;
		const at = found.index;
		let end = at + whole.length;
		let kind = "";
		if (quote) {
			const line = endOf(text, "\n", at);
			end = at < (unclosed[quote] ?? 0) ? -1 : endOfString(text, at, quote, line);
			if (end < 0) unclosed[quote] = quote === "`" ? Infinity : line;
			else kind = language === "json" && /^\s*:/.test(text.slice(end, end + 9)) ? "keyword" : "string";
		} else if (comment) {
			if (COMMENTS.get(language).includes(comment) && (comment !== "#" || !/\S/.test(text[at - 1] ?? ""))) {
				kind = "comment";
				end = endOf(text, ENDS[comment] ?? "\n", at + comment.length);
			}
		} else if (/\d/.test(whole[0])) kind = "number";
		else if (language === "sql" ? /^[A-Z]+$/.test(whole) : !PLAIN.includes(language) && KEYWORDS.has(whole)) kind = "keyword";
		if (!kind) {
			TOKEN.lastIndex = quote || comment ? at + 1 : end;
			continue;
		}
		nodes.push(text.slice(reached, at), span(kind, text.slice(at, end)));
		reached = TOKEN.lastIndex = end;
	}
	nodes.push(text.slice(reached));
	return nodes;
}

/** Return where the next `mark` ends; a line ends before it. */
function endOf(text, mark, at) {
	const end = text.indexOf(mark, at);
	return end < 0 ? text.length : mark === "\n" ? end : end + mark.length;
}

/** Return where a string ends, or -1. One with three quotes, or with `, may span lines. */
function endOfString(text, at, quote, line) {
	if (text.startsWith(quote.repeat(3), at)) return endOf(text, quote.repeat(3), at + 3);
	const last = quote === "`" ? text.length : line;
	for (let place = at + 1; place < last; place += 1) {
		if (text[place] === "\\") place += 1;
		else if (text[place] === quote) return place + 1;
	}
	return -1;
}
