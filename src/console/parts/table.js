// Tables that become cards on a narrow screen, and lists of the API that are shown a page at a time.
import { call } from "../api/client.js";
import { number, t, word } from "../shell/language.js";
import { fill, h } from "./dom.js";
import { every, head, section, shown } from "./page.js";
import { empty } from "./states.js";

const rowsAPage = 25;

/**
 * @template T
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {readonly T[]} rows
 */
export function table(caption, columns, rows) {
	/** @type {(string | undefined)[]} */
	const kinds = columns.map(
		([, cell, kind]) => kind ?? (rows[0] !== undefined && typeof cell(rows[0]) === "number" ? "numeric" : undefined),
	);
	const heads = columns.map(([text], at) => h("th", { scope: "col", class: kinds[at] }, text));
	const cells = (/** @type {T} */ row) =>
		columns.map(([text, cell], at) =>
			at === 0 ? h("th", { scope: "row" }, shown(cell(row))) : h("td", { "data-label": text, class: kinds[at] }, shown(cell(row))),
		);
	return h(
		"table",
		h("caption.hidden", caption),
		h("thead", h("tr", heads)),
		h(
			"tbody",
			rows.map((row) => h("tr", cells(row))),
		),
	);
}

/**
 * Shows a list as a table, a page at a time. The address keeps the page number under `name`, so that Back returns to that page.
 * @template T
 * @param {View} view
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {Load<T>} load
 * @param {{ name?: string, isLive?: (row: T) => boolean }} [options] `isLive`: whether a row may still change, so that it is polled
 */
export async function pagedTable(view, caption, columns, load, { name = "page", isLive } = {}) {
	const place = h("div");
	const counted = h("span", { "aria-live": "polite" });
	let page = Math.max(1, Number(view.query.get(name)) || 1);
	/** @type {{ rows: readonly T[], total?: number | undefined }} */
	let loaded = { rows: [] };
	let drawn = "";
	const step = (/** @type {number} */ by, /** @type {string} */ text) => {
		const button = h("button", text);
		button.addEventListener("click", async () => {
			if (button.ariaDisabled === "true") return;
			page += by;
			view.query.set(name, String(page));
			history.replaceState(null, "", `${location.hash.split("?")[0]}?${view.query}`);
			await draw().catch(view.fail);
		});
		return button;
	};
	const [before, after] = [step(-1, t("page.before")), step(1, t("page.after"))];
	const pager = h("p.actions.pager", before, counted, after);

	async function draw() {
		const offset = (page - 1) * rowsAPage;
		// One row more than is shown tells whether there is another page.
		loaded = await load({ offset, limit: rowsAPage + 1 });
		const rows = loaded.rows.slice(0, rowsAPage);
		if (rows.length === 0 && page > 1) {
			page = 1;
			return draw();
		}
		const what = JSON.stringify([page, loaded]);
		if (what === drawn) return;
		drawn = what;
		fill(place, table(caption, columns, rows));
		const [from, to, all] = [number(offset + 1), number(offset + rows.length), loaded.total];
		fill(counted, all === undefined ? t("page.rows", { from, to }) : t("page.rowsof", { from, to, all }));
		before.ariaDisabled = String(page === 1);
		after.ariaDisabled = String(loaded.rows.length <= rowsAPage);
		pager.hidden = page === 1 && loaded.rows.length <= rowsAPage;
	}
	await draw();
	if (isLive) void every(view.signal, 4_000, async () => (loaded.rows.some(isLive) ? draw() : undefined));
	return { element: h("div", place, pager), isEmpty: () => loaded.rows.length === 0, draw };
}

/**
 * Makes a `Load` of rows that are already here.
 * @template T
 * @param {readonly T[]} rows
 * @returns {Load<T>}
 */
export const inHand =
	(rows) =>
	async ({ offset, limit }) => ({ rows: rows.slice(offset, offset + limit), total: rows.length });

/** @typedef {"documents_list" | "benchmarks_list" | "alignments_list" | "evaluations_list" | "agents_list"} ListOperation */

/**
 * Shows a screen with one list: its purpose and its rows, or what to do while there are none. The texts are lead, all, none and
 * none.hint of the group `name`.
 * @template {"documents" | "benchmarks" | "alignments" | "evaluations" | "agents"} N
 * @template T
 * @param {View} view
 * @param {N} name
 * @param {Column<T>[]} columns
 * @param {(reply: Replies[`${N}_list`]) => readonly T[]} rowsOf
 * @param {{ actions?: () => HTMLElement[], above?: Child, isLive?: (row: T) => boolean }} [options] `actions`: the last one is the main one
 * @returns {Promise<() => Promise<void>>} loads the rows again and redraws the screen
 */
export async function listScreen(view, name, columns, rowsOf, { actions = () => [], above, isLive } = {}) {
	const all = t(`${name}.all`);
	/** @type {Load<T>} */
	const load = async (query) => {
		const reply = await call(/** @type {ListOperation} */ (`${name}_list`), { query });
		return { rows: rowsOf(/** @type {Replies[`${N}_list`]} */ (reply)), total: /** @type {{ total?: number }} */ (reply).total };
	};
	const listed = await pagedTable(view, all, columns, load, { isLive });
	const draw = () => {
		const isEmpty = listed.isEmpty();
		const none = () => empty(t(`${name}.none`), t(`${name}.none.hint`), ...actions().slice(-1));
		const top = head(word("nav", name), { lead: t(`${name}.lead`), actions: isEmpty ? [] : actions() });
		fill(view.place, top, above, isEmpty ? none() : section(all, listed.element));
	};
	draw();
	return async () => {
		await listed.draw();
		draw();
	};
}
