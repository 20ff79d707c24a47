// Times, sizes and counts, as people read them.

import { h } from "./dom.js";

const NUMBER = new Intl.NumberFormat();
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const AGE = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const STEPS = [
	["second", 1, 60],
	["minute", 60, 60],
	["hour", 3600, 24],
	["day", 86400, 14],
];

/** Return Unix milliseconds of what REST returns: a number, or ISO time in UTC. */
export function millis(value) {
	if (typeof value === "number") return value;
	return Date.parse(/Z|[+-]\d\d:\d\d$/.test(value) ? value : `${value}Z`);
}

export const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

export const number = (value) => NUMBER.format(value);

export function count(value, one, many = `${one}s`) {
	return `${NUMBER.format(value)} ${value === 1 ? one : many}`;
}

/** Return a `time`: its age if that is short, else its date; all of it on demand. */
export function when(value) {
	const at = millis(value);
	const seconds = (at - Date.now()) / 1000;
	const step = STEPS.find(([, size, most]) => Math.abs(seconds) < size * most);
	const shown = step ? AGE.format(Math.round(seconds / step[1]), step[0]) : DAY.format(at);
	return stamp(at, shown);
}

export const clock = (value) => stamp(millis(value), CLOCK.format(millis(value)));
export const dayAndClock = (value) => stamp(millis(value), `${DAY.format(millis(value))}, ${CLOCK.format(millis(value))}`);
export const day = (value) => DAY.format(millis(value));

function stamp(at, shown) {
	return h("time", { datetime: new Date(at).toISOString(), title: FULL.format(at) }, shown);
}

export function bytes(value) {
	const units = ["bytes", "kB", "MB", "GB", "TB"];
	let unit = 0;
	while (value >= 1000 && unit < units.length - 1) {
		value /= 1000;
		unit += 1;
	}
	return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(seconds) {
	if (seconds < 60) return `${Math.round(seconds)} s`;
	if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
	if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
	return count(Math.round(seconds / 86400), "day");
}
