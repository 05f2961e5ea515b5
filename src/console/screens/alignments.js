// Alignments: the list, and a new one with its estimate.
import { call, callAll, onceKey, orNull } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { facts, head, link, section } from "../parts/page.js";
import { bar } from "../parts/progress.js";
import { badge, empty, notice } from "../parts/states.js";
import { paged, table } from "../parts/table.js";
import { bytes, duration, number, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { showAlignment } from "./alignment.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { Field, Values } from "../parts/form.js" */
/** @import { View } from "../shell/router.js" */

const limit = 20;

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id !== null) return showAlignment(view, view.id);
	const { signal, fail, place } = view;
	const load = async (/** @type {number} */ offset) =>
		(await call("alignments_list", { query: { limit, offset }, signal })).alignment_projects;
	const first = await load(0);
	const begin = h("a", { class: "button primary", href: "#/alignments/new" }, t("alignments.new"));
	fill(
		place,
		head(t("alignments.title"), { lead: t("alignments.lead"), actions: first.length > 0 ? [begin] : [] }),
		first.length === 0
			? empty(t("alignments.none"), t("alignments.none.hint"), begin)
			: section(t("alignments.all"), paged(load, listOf, { more: t("action.more"), onError: fail, limit, first })),
	);
}

/** @param {Replies["alignments_list"]["alignment_projects"]} rows */
const listOf = (rows) =>
	table(
		t("alignments.all"),
		[
			{ head: t("field.name"), cell: (one) => link(`#/alignments/${one.id}`, one.name) },
			{
				head: t("field.status"),
				cell: (one) =>
					one.status === "PENDING" ? bar(one.name, (one.progress ?? 0) / 100) : badge(one.status, word("status", one.status)),
			},
			{ head: t("field.documents"), cell: (one) => number(one.document_count), numeric: true },
			{
				head: t("field.model"),
				cell: (one) => (one.model_id ? link(`#/models/${one.model_id}`, t("action.open")) : "–"),
			},
			{ head: t("field.created"), cell: (one) => when(one.created_date) },
		],
		rows,
	);

/** @param {View} view */
async function showNew(view) {
	const { signal, place, query } = view;
	const [bases, documents, benchmarks] = await Promise.all([
		callAll("models_base", (reply) => reply.base_models, { signal }),
		callAll("documents_list", (reply) => reply.documents, { signal }),
		orNull(
			callAll("benchmarks_list", (reply) => reply.benchmarks, { signal }),
			403,
		),
	]);
	const alignable = bases.filter(({ can_be_aligned }) => can_be_aligned);
	const back = { href: "#/alignments", text: t("nav.alignments") };
	if (alignable.length === 0) {
		fill(place, head(t("alignments.new"), { back }), empty(t("align.nobase"), t("align.nobase.hint"), link("#/models", t("nav.models"))));
		return;
	}
	if (documents.length === 0) {
		fill(
			place,
			head(t("alignments.new"), { back }),
			empty(t("documents.none"), t("documents.none.hint"), link("#/documents", t("nav.documents"))),
		);
		return;
	}
	const ready = (benchmarks ?? []).filter(({ status }) => status === "READY");
	const wanted = query.get("benchmark") ?? ready[0]?.benchmark_id ?? "";
	/** @type {Field[]} */
	const fields = [
		{
			name: "alignment_name",
			label: t("field.name"),
			required: true,
			hint: t("align.name.hint"),
			more: { maxlength: 200 },
		},
		{
			name: "base_model_id",
			label: t("field.base"),
			type: "select",
			options: alignable.map((one) => ({ value: one.model_id, text: `${one.model_name} (${bytes(one.bytes)})` })),
		},
		{
			name: "document_ids",
			label: t("field.documents"),
			type: "checks",
			options: documents.map((one) => ({ value: one.document_id, text: one.name })),
		},
		{
			name: "benchmark_id",
			label: t("field.benchmark"),
			type: "select",
			hint: t("align.benchmark.hint"),
			value: wanted,
			options: [
				...ready.map((one) => ({
					value: one.benchmark_id,
					text: `${one.name} v${one.version} (${number(one.n_samples)})`,
				})),
				{ value: "", text: t("align.benchmark.none") },
			],
		},
		{
			name: "workflow_id",
			label: t("align.preset"),
			type: "select",
			value: "standard",
			hint: t("align.preset.hint"),
			options: ["quick", "standard", "thorough"].map((value) => ({ value, text: word("preset", value) })),
		},
		{ name: "organisation", label: t("align.organisation"), hint: t("align.organisation.hint") },
		{ name: "description", label: t("field.description"), type: "textarea" },
		{ name: "teacher_model", label: t("align.teacher"), hint: t("align.teacher.hint") },
		{ name: "teacher_provider", label: t("align.provider"), hint: t("align.provider.hint") },
	];
	const told = h("div", { "aria-live": "polite" });
	const made = form(fields, {
		submit: t("align.estimate"),
		async onSubmit(values) {
			fill(told, notice("plain", h("p", {}, t("align.estimating"))));
			try {
				const estimate = await call("alignments_estimate", { body: values, signal });
				fill(told, estimateOf(estimate), startForm(view, values));
				told.scrollIntoView({ block: "nearest" });
			} catch (error) {
				fill(told);
				throw error;
			}
		},
	});
	// An estimate of other values would mislead.
	made.addEventListener("change", () => fill(told));
	fill(place, head(t("alignments.new"), { lead: t("align.lead"), back }), section(t("align.what"), made), told);
}

/** @param {Replies["alignments_estimate"]} estimate */
function estimateOf({ passages, targets, rows, train_tokens, memory_bytes, gpu_memory_bytes, minutes }) {
	const range = (/** @type {{ low: number, likely: number, high: number }} */ { low, likely, high }) =>
		`${number(likely)} (${number(low)}–${number(high)})`;
	return section(
		t("align.estimated"),
		facts([
			[
				t("estimate.time"),
				minutes
					? `${duration(minutes.likely * 60)} (${duration(minutes.low * 60)} – ${duration(minutes.high * 60)})`
					: t("estimate.unknown"),
			],
			[t("estimate.memory"), bytes(memory_bytes)],
			[t("estimate.gpu"), gpu_memory_bytes === 0 ? t("estimate.nogpu") : bytes(gpu_memory_bytes)],
			[t("estimate.passages"), number(passages)],
			[t("estimate.targets"), number(targets)],
			[t("estimate.rows"), range(rows)],
			[t("estimate.tokens"), range(train_tokens)],
		]),
	);
}

/** @param {View} view @param {Values} values */
function startForm({ signal }, values) {
	// One key for this estimate: pressed twice, the alignment is still started once.
	const key = onceKey();
	return form([], {
		submit: t("align.start"),
		async onSubmit() {
			const { alignment_id } = await call("alignments_create", { body: values, signal, onceKey: key });
			go(`#/alignments/${alignment_id}`);
		},
	});
}
