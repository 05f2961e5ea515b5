// A list of items with filters above it.
import { number, t, word } from "../shell/language.js";
import { fill, h } from "./dom.js";
import { badge } from "./states.js";

const shownAtFirst = 50;

/**
 * @template T
 * @param {readonly T[]} items
 * @param {{ filters: Filter<T>[], textOf: (item: T) => string, render: (item: T) => Child, actions?: Child }} options
 */
export function filteredItems(items, { filters, textOf, render, actions }) {
	const made = filters.map(({ label, group, of, chosen }) => {
		const words = [...new Set(items.map(of))].map((value) => h("option", { value, selected: value === chosen }, word(group, value)));
		const select = h("select", h("option", { value: "" }, t("filter.all")), words);
		return { select, of, row: h("label", label, select) };
	});
	const search = h("input", { type: "search", autocomplete: "off" });
	const counted = h("p.small", { "aria-live": "polite" });
	const list = h("ul.list");
	const more = h("button", t("action.more"));
	let most = shownAtFirst;

	const draw = () => {
		const wanted = search.value.trim().toLowerCase();
		const passes = (/** @type {T} */ item) => made.every(({ select, of }) => select.value === "" || of(item) === select.value);
		const found = items.filter((item) => passes(item) && textOf(item).toLowerCase().includes(wanted));
		fill(
			list,
			found.slice(0, most).map((item) => h("li", render(item))),
		);
		fill(counted, t("filter.found", { n: found.length, all: number(items.length) }));
		more.hidden = found.length <= most;
	};
	const redraw = () => {
		most = shownAtFirst;
		draw();
	};
	for (const { select } of made) select.addEventListener("change", redraw);
	search.addEventListener("input", redraw);
	more.addEventListener("click", () => {
		most += 200;
		draw();
	});
	draw();
	const rows = made.map(({ row }) => row);
	return h("div", h("div.filters", rows, h("label", t("filter.search"), search), actions), counted, list, h("p", more));
}

/**
 * The head of an item: a badge, and the question with its number.
 * @param {string} kind of the badge @param {string} text @param {{ sample_num: number, instruction: string }} item
 */
export const itemHead = (kind, text, { sample_num, instruction }) =>
	h("p", badge(kind, text), " ", h("strong", `${sample_num}. ${instruction}`));

/** A line of small print with dots between its parts. Empty parts are left out. @param {...Child} parts */
export const smallPrint = (...parts) => {
	const [first, ...rest] = parts.filter(Boolean);
	return h(
		"p.small",
		first,
		rest.map((part) => [" · ", part]),
	);
};
