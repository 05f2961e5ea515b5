// Documents: upload of many files with progress, and what was read of each.
import { ApiError, call, upload } from "../api/client.js";
import { append, fill, h } from "../parts/dom.js";
import { head, link, section } from "../parts/page.js";
import { bar } from "../parts/progress.js";
import { announce, badge, empty, messageOf } from "../parts/states.js";
import { paged, table } from "../parts/table.js";
import { bytes, number, percent, t, when } from "../shell/language.js";
import { showDocument } from "./document.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["documents_list"]["documents"][number]} DocumentRecord */

/** Sent at the same time; the appliance reads them one after another anyway. */
const atOnce = 2;
const limit = 20;

/** @param {View} view */
export async function show(view) {
	if (view.id !== null) return showDocument(view, view.id);
	const list = h("div", {});
	const queue = createQueue(view, () => drawList(view, list).catch(view.fail));
	fill(view.place, head(t("documents.title"), { lead: t("documents.lead") }), dropZone(queue.add), queue.element, list);
	await drawList(view, list);
}

/** @param {View} view @param {HTMLElement} list */
async function drawList({ signal, fail }, list) {
	const load = async (/** @type {number} */ offset) => (await call("documents_list", { query: { limit, offset }, signal })).documents;
	const first = await load(0);
	const filled = paged(load, listOf, { more: t("action.more"), onError: fail, limit, first });
	fill(list, first.length === 0 ? empty(t("documents.none"), t("documents.none.hint")) : section(t("documents.all"), filled));
}

/** @param {DocumentRecord[]} rows */
const listOf = (rows) =>
	table(
		t("documents.all"),
		[
			{ head: t("field.name"), cell: (one) => link(`#/documents/${one.document_id}`, one.name) },
			{ head: t("documents.format"), cell: (one) => one.format },
			{ head: t("documents.language"), cell: (one) => one.report?.language.main ?? "–" },
			{ head: t("documents.characters"), cell: (one) => number(one.characters), numeric: true },
			{ head: t("field.size"), cell: (one) => bytes(one.bytes), numeric: true },
			{ head: t("documents.found"), cell: (one) => found(one) },
			{ head: t("field.created"), cell: (one) => when(one.created_at) },
		],
		rows,
	);

/** @param {DocumentRecord} one */
function found({ report, duplicates }) {
	const warnings = report?.warnings.length ?? 0;
	const doubled = duplicates.exact + duplicates.near;
	return [
		warnings > 0 && badge("STOPPED", t("documents.warnings", { n: warnings })),
		doubled > 0 && h("span", { class: "small" }, ` ${t("documents.duplicates", { n: doubled })}`),
		warnings + doubled === 0 && "–",
	];
}

/** @param {(files: File[]) => void} add */
function dropZone(add) {
	const input = h("input", { type: "file", multiple: true, "aria-label": t("documents.choose") });
	input.addEventListener("change", () => {
		add([...(input.files ?? [])]);
		input.value = "";
	});
	const zone = h(
		"div",
		{ class: "drop" },
		h("p", {}, t("documents.drop")),
		h("p", {}, h("span", { class: "button primary" }, t("documents.choose"), input)),
		h("p", { class: "small" }, t("documents.formats")),
	);
	const over = (/** @type {boolean} */ is) => (/** @type {DragEvent} */ event) => {
		event.preventDefault();
		zone.classList.toggle("over", is);
	};
	zone.addEventListener("dragover", over(true));
	zone.addEventListener("dragleave", over(false));
	zone.addEventListener("drop", (event) => {
		over(false)(event);
		add([...(event.dataTransfer?.files ?? [])]);
	});
	return zone;
}

/** Files one after another, each with a line of its own, so that one that is refused holds no other up. @param {View} view @param {() => Promise<void>} onDone */
function createQueue({ signal }, onDone) {
	const lines = h("ul", { class: "list", "aria-label": t("documents.uploads") });
	const element = h("div", { hidden: true }, section(t("documents.uploads"), lines));
	/** @type {{ file: File, line: HTMLElement }[]} */
	const waiting = [];
	let sending = 0;

	async function next() {
		const one = sending < atOnce ? waiting.shift() : undefined;
		if (!one || signal.aborted) return;
		sending++;
		const { file, line } = one;
		const shown = h("div", {}, bar(file.name, 0));
		append(line, shown);
		const onProgress = (/** @type {number} */ share) => {
			// What is sent is read only then, and how long that takes is not known.
			if (share < 1) /** @type {HTMLProgressElement} */ (shown.firstChild).value = share;
			else fill(shown, bar(t("documents.reading"), null), h("p", { class: "small" }, percent(1), ` · ${t("documents.reading")}`));
		};
		try {
			const { documents } = await upload("documents_upload", file, { onProgress, signal });
			fill(
				shown,
				badge("READY", t("documents.read")),
				...documents.flatMap((made) => [" ", link(`#/documents/${made.document_id}`, t("action.open"))]),
			);
		} catch (error) {
			if (signal.aborted) return;
			fill(shown, ...refusal(error));
		}
		sending--;
		if (waiting.length > 0) return void next();
		if (sending > 0) return;
		announce(t("documents.uploaded"));
		await onDone();
	}

	return {
		element,
		/** @param {File[]} files */
		add(files) {
			for (const file of files) {
				const line = h("li", {}, h("p", {}, file.name, h("span", { class: "small" }, ` · ${bytes(file.size)}`)));
				append(lines, line);
				waiting.push({ file, line });
			}
			element.hidden = false;
			for (let i = 0; i < atOnce; i++) void next();
		},
	};
}

/** @param {unknown} error */
function refusal(error) {
	const known = error instanceof ApiError ? error : null;
	const id = known?.requestId ? ` · ${t("state.request")} ${known.requestId}` : "";
	return [badge("FAILED", t("documents.refused")), h("p", {}, messageOf(error)), h("p", { class: "small" }, `${known?.hint ?? ""}${id}`)];
}
