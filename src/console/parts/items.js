// A list of a benchmark's items with filters above it.
import { number, t } from "../shell/language.js";
import { fill, h } from "./dom.js";

/** @typedef {{ value: string, text: string }} Choice */

const shownAtFirst = 50;

/**
 * @template T
 * @param {readonly T[]} items
 * @param {{ filters: { label: string, choices: Choice[], of: (item: T) => string }[], textOf: (item: T) => string, render: (item: T) => HTMLElement }} options
 */
export function filteredItems(items, { filters, textOf, render }) {
	const made = filters.map(({ label, choices, of }) => {
		const select = h(
			"select",
			{},
			h("option", { value: "" }, t("filter.all")),
			choices.map(({ value, text }) => h("option", { value }, text)),
		);
		return { select, of, row: h("label", {}, label, select) };
	});
	const search = h("input", { type: "search", autocomplete: "off" });
	const counted = h("p", { class: "small", "aria-live": "polite" });
	const list = h("ul", { class: "list" });
	const more = h("button", { type: "button" }, t("action.more"));
	let most = shownAtFirst;

	const draw = () => {
		const wanted = search.value.trim().toLowerCase();
		const found = items.filter(
			(item) =>
				made.every(({ select, of }) => select.value === "" || of(item) === select.value) && textOf(item).toLowerCase().includes(wanted),
		);
		fill(list, found.slice(0, most).map(render));
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
	const bar = h(
		"div",
		{ class: "filters" },
		made.map(({ row }) => row),
		h("label", {}, t("filter.search"), search),
	);
	return { element: h("div", {}, bar, counted, list, h("p", {}, more)), bar };
}
