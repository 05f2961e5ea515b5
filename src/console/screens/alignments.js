// Alignments: the list, and a new one with its estimate.
import { alignedModels, baseModels, call, onceKey } from "../api/client.js";
import {
	bytes,
	duration,
	facts,
	fill,
	form,
	h,
	head,
	link,
	listScreen,
	mainLink,
	notice,
	number,
	progress,
	section,
	statusBadge,
	t,
	when,
} from "../ui.js";
import { showAlignment } from "./alignment.js";
import { benchmarkOptions, documentOptions, noDocuments, noModel, presetField, upstreamField } from "./choices.js";

const begin = () => mainLink("#/alignments/new", t("alignments.new"));

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id !== null) return showAlignment(view, view.id);
	const names = new Map((await alignedModels()).map((one) => [one.model_id, one.model_name]));
	await listScreen(
		view,
		"alignments",
		[
			[t("field.name"), (one) => link(`#/alignments/${one.id}`, one.name)],
			[
				t("field.status"),
				(one) => (one.status === "PENDING" ? progress(one.name, one.progress_detail, one.progress) : statusBadge(one.status)),
			],
			[t("field.documents"), (one) => one.document_count],
			[t("field.model"), (one) => one.model_id && link(`#/models/${one.model_id}`, names.get(one.model_id) ?? one.model_id)],
			[t("field.created"), (one) => when(one.created_date), "when"],
		],
		(reply) => reply.alignment_projects,
		{ actions: () => [begin()], isLive: ({ status }) => status === "PENDING" },
	);
}

/** @param {View} view */
async function showNew(view) {
	const { place, query } = view;
	const [bases, documents, benchmarks, preset, upstream] = await Promise.all([
		baseModels(),
		documentOptions(),
		benchmarkOptions(),
		presetField(),
		upstreamField("teacher_provider"),
	]);
	const alignable = bases.filter(({ can_be_aligned }) => can_be_aligned);
	const top = head(t("alignments.new"), { lead: t("align.lead"), back: "alignments" });
	if (alignable.length === 0) return fill(place, top, noModel("align.nobase"));
	if (documents.length === 0) return fill(place, top, noDocuments());
	/** @type {Field[]} */
	const fields = [
		{ name: "alignment_name", label: t("field.name"), required: true, hint: t("align.name.hint"), more: { maxlength: 200 } },
		{
			name: "base_model_id",
			label: t("field.base"),
			options: alignable.map((one) => ({
				value: one.model_id,
				text: `${one.model_name} (${t("align.size", { size: bytes(one.bytes) })})`,
			})),
		},
		{ name: "document_ids", label: t("field.documents"), type: "checks", options: documents },
		{
			name: "benchmark_id",
			label: t("field.benchmark"),
			hint: t("align.benchmark.hint"),
			value: query.get("benchmark") ?? benchmarks[0]?.value ?? "",
			options: [...benchmarks, { value: "", text: t("align.benchmark.none") }],
		},
		preset,
		{ name: "organisation", label: t("align.organisation"), hint: t("align.organisation.hint") },
		{ name: "description", label: t("field.description"), type: "textarea", hint: t("field.optional") },
		{ name: "teacher_model", label: t("align.teacher"), hint: t("align.teacher.hint") },
		...upstream,
	];
	const told = h("div", { "aria-live": "polite" });
	const made = form(fields, {
		submit: t("align.estimate"),
		async onSubmit(values) {
			const waiting = notice("plain", t("align.estimating"));
			fill(told, waiting);
			try {
				const estimate = await call("alignments_estimate", { body: values });
				if (!waiting.isConnected) return;
				fill(told, estimateOf(estimate), startForm(view, values));
				told.scrollIntoView({ block: "nearest" });
			} catch (error) {
				fill(told);
				throw error;
			}
		},
	});
	// The estimate is for the former values, so it is removed, or dropped if it is still to come.
	made.addEventListener("change", () => fill(told));
	fill(place, top, section(t("align.what"), made), told);
}

/** @param {Replies["alignments_estimate"]} estimate */
function estimateOf({ passages, targets, rows, train_tokens, memory_bytes, gpu_memory_bytes, minutes, teacher_messages }) {
	/** @param {{ low: number, likely: number, high: number }} range @param {(value: number) => string} [text] */
	const range = ({ low, likely, high }, text = number) => `${text(likely)} (${t("state.range", { low: text(low), high: text(high) })})`;
	return section(
		t("align.estimated"),
		facts([
			[t("estimate.time"), minutes ? range(minutes, (value) => duration(value * 60)) : t("estimate.unknown")],
			[t("estimate.memory"), bytes(memory_bytes)],
			[t("estimate.gpu"), gpu_memory_bytes === 0 ? t("system.nogpu") : bytes(gpu_memory_bytes)],
			[t("estimate.passages"), passages],
			[t("estimate.targets"), targets],
			[t("estimate.rows"), range(rows)],
			[t("estimate.tokens"), range(train_tokens)],
			[t("estimate.teacher"), teacher_messages ? range(teacher_messages) : number(0)],
		]),
	);
}

/** @param {View} view @param {Values} values */
function startForm(view, values) {
	// Every press of the button sends the same idempotency key, so the alignment is started only once.
	const key = onceKey();
	return form([], {
		submit: t("align.start"),
		async onSubmit() {
			const { alignment_id } = await call("alignments_create", { body: values, onceKey: key });
			view.go(`#/alignments/${alignment_id}`);
		},
	});
}
