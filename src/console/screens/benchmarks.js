// Benchmarks: uploaded, or made of documents.
import { call, callAll, onceKey, upload } from "../api/client.js";
import { append, fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { head, link, section } from "../parts/page.js";
import { progress } from "../parts/progress.js";
import { badge, empty } from "../parts/states.js";
import { paged, table } from "../parts/table.js";
import { number, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { showBenchmark } from "./benchmark.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */

const limit = 20;

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id !== null) return showBenchmark(view, view.id);
	const { signal, place, fail } = view;
	const load = async (/** @type {number} */ offset) => (await call("benchmarks_list", { query: { limit, offset }, signal })).benchmarks;
	const first = await load(0);
	const begin = h("a", { class: "button primary", href: "#/benchmarks/new" }, t("benchmarks.new"));
	fill(
		place,
		head(t("benchmarks.title"), { lead: t("benchmarks.lead"), actions: first.length > 0 ? [begin] : [] }),
		first.length === 0
			? empty(t("benchmarks.none"), t("benchmarks.none.hint"), begin)
			: section(t("benchmarks.all"), paged(load, listOf, { more: t("action.more"), onError: fail, limit, first })),
	);
}

/** @param {Replies["benchmarks_list"]["benchmarks"]} rows */
const listOf = (rows) =>
	table(
		t("benchmarks.all"),
		[
			{ head: t("field.name"), cell: (one) => link(`#/benchmarks/${one.benchmark_id}`, one.name) },
			{ head: t("field.version"), cell: (one) => number(one.version), numeric: true },
			{
				head: t("field.status"),
				cell: (one) =>
					one.status === "PROCESSING" ? progress(one.name, one.progress_detail) : badge(one.status, word("status", one.status)),
			},
			{ head: t("benchmarks.dev"), cell: (one) => number(one.splits.dev), numeric: true },
			{ head: t("benchmarks.sealed"), cell: (one) => number(one.splits.sealed), numeric: true },
			{
				head: t("benchmarks.origin"),
				cell: (one) => (one.generation ? t("benchmarks.made") : t("benchmarks.uploaded")),
			},
			{ head: t("field.created"), cell: (one) => when(one.created_at) },
		],
		rows,
	);

/** @param {View} view */
async function showNew({ place, signal }) {
	const [documents, bases] = await Promise.all([
		callAll("documents_list", (reply) => reply.documents, { signal }),
		callAll("models_base", (reply) => reply.base_models, { signal }),
	]);
	const texts = bases.filter(({ kind }) => kind === "text");
	const key = onceKey();
	const ofDocuments = form(
		[
			{ name: "benchmark_name", label: t("field.name"), more: { maxlength: 200 } },
			{
				name: "document_ids",
				label: t("field.documents"),
				type: "checks",
				options: documents.map((one) => ({ value: one.document_id, text: one.name })),
			},
			{ name: "n_samples", label: t("benchmarks.count"), type: "number", value: 100, more: { min: 1, max: 5000 } },
			{
				name: "model",
				label: t("benchmarks.checker"),
				type: "select",
				options: texts.map((one) => ({ value: one.model_id, text: one.model_name })),
				hint: t("benchmarks.checker.hint"),
			},
			{ name: "generator_model", label: t("benchmarks.generator"), hint: t("benchmarks.generator.hint") },
			{ name: "generator_provider", label: t("align.provider"), hint: t("align.provider.hint") },
			{ name: "seed", label: t("benchmarks.seed"), type: "number", value: 1, more: { min: 0, max: 4294967295 } },
		],
		{
			submit: t("benchmarks.make"),
			async onSubmit(body) {
				const { benchmark_id } = await call("benchmarks_create", { body, signal, onceKey: key });
				go(`#/benchmarks/${benchmark_id}`);
			},
		},
	);
	const ofFile = form(
		[
			{
				name: "file",
				label: t("benchmarks.file"),
				type: "file",
				required: true,
				hint: t("benchmarks.file.hint"),
				more: { accept: ".jsonl,.csv" },
			},
		],
		{
			submit: t("benchmarks.upload"),
			async onSubmit({ file }) {
				const [one] = /** @type {File[]} */ (file);
				if (!one) return;
				const { benchmark_id } = await upload("benchmarks_upload", one, { signal });
				go(`#/benchmarks/${benchmark_id}`);
			},
		},
	);
	fill(
		place,
		head(t("benchmarks.new"), {
			lead: t("benchmarks.new.lead"),
			back: { href: "#/benchmarks", text: t("nav.benchmarks") },
		}),
	);
	append(
		place,
		h(
			"div",
			{ class: "columns" },
			section(
				t("benchmarks.make"),
				documents.length > 0 ? ofDocuments : empty(t("documents.none"), t("documents.none.hint"), link("#/documents", t("nav.documents"))),
			),
			section(t("benchmarks.upload"), ofFile),
		),
	);
}
