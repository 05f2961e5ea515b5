// Tables that become cards where the screen is narrow.
import { h } from "./dom.js";

/** @import { Child } from "./dom.js" */
/**
 * @template T
 * @typedef {{ head: string, cell: (row: T, index: number) => Child, numeric?: boolean }} Column
 */

/**
 * @template T
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {readonly T[]} rows
 */
export function table(caption, columns, rows) {
	return h(
		"table",
		{},
		h("caption", { class: "hidden" }, caption),
		h(
			"thead",
			{},
			h(
				"tr",
				{},
				columns.map(({ head, numeric }) => h("th", { scope: "col", class: numeric && "numeric" }, head)),
			),
		),
		h(
			"tbody",
			{},
			rows.map((row, index) => rowOf(columns, row, index)),
		),
	);
}

/**
 * @template T
 * @param {Column<T>[]} columns
 * @param {T} row
 * @param {number} index
 */
function rowOf(columns, row, index) {
	return h(
		"tr",
		{},
		columns.map(({ head, cell, numeric }, at) =>
			at === 0
				? h("th", { scope: "row" }, cell(row, index))
				: h("td", { "data-label": head, class: numeric && "numeric" }, cell(row, index)),
		),
	);
}

/**
 * A list with a button for the next page of it.
 * @template T
 * @param {(offset: number, limit: number) => Promise<T[]>} load
 * @param {(rows: T[]) => Node} render
 * @param {{ more: string, onError: (error: unknown) => void, limit?: number, first: T[] }} options
 */
export function paged(load, render, { more, onError, limit = 20, first }) {
	const rows = [...first];
	const place = h("div", {}, render(rows));
	const button = h("button", { type: "button" }, more);
	const box = h("div", {}, place, first.length === limit && h("p", {}, button));
	button.addEventListener("click", async () => {
		button.disabled = true;
		try {
			const next = await load(rows.length, limit);
			rows.push(...next);
			place.replaceChildren(render(rows));
			if (next.length < limit) button.remove();
		} catch (error) {
			onError(error);
		}
		button.disabled = false;
	});
	return box;
}
