// The progress of long work, and the time left.
import { duration, number, t, word } from "../shell/language.js";
import { h } from "./dom.js";

/** @param {string} label @param {number | null} share from 0 to 1; null while it is not known */
export const bar = (label, share) =>
	h("progress", { "aria-label": label, max: 1, ...(share === null ? {} : { value: Math.min(1, share) }) });

/** @param {Detail | null | undefined} detail */
export function detailText(detail) {
	if (!detail) return "";
	const { phase, done, total, unit, seconds_left } = detail;
	const counted = `${total === null ? number(done) : `${number(done)} / ${number(total)}`} ${word("unit", unit)}`;
	const left = seconds_left === null ? "" : ` · ${t("progress.left", { time: duration(seconds_left) })}`;
	return `${word("phase", phase)}: ${counted}${left}`;
}

/** @param {string} label @param {Detail | null | undefined} detail @param {number} [percentDone] */
export function progress(label, detail, percentDone) {
	const share = percentDone !== undefined ? percentDone / 100 : detail?.total ? detail.done / detail.total : null;
	return h("div.progress", bar(label, share), h("p.small", detailText(detail)));
}
