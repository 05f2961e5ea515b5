// Benchmarks: the list, and a new one, which is made from documents or uploaded.
import { baseModels, call, onceKey, upload } from "../api/client.js";
import { code, fill, form, h, head, link, listScreen, mainLink, progress, section, statusBadge, t, when } from "../ui.js";
import { showBenchmark } from "./benchmark.js";
import { documentOptions, noDocuments, noModel, upstreamField } from "./choices.js";

const begin = () => mainLink("#/benchmarks/new", t("benchmarks.new"));

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id !== null) return showBenchmark(view, view.id);
	await listScreen(
		view,
		"benchmarks",
		[
			[t("field.name"), (one) => link(`#/benchmarks/${one.benchmark_id}`, one.name)],
			[t("field.version"), (one) => one.version],
			[t("field.status"), (one) => (one.status === "PROCESSING" ? progress(one.name, one.progress_detail) : statusBadge(one.status))],
			[t("benchmarks.dev"), (one) => one.splits.dev],
			[t("benchmarks.sealed"), (one) => one.splits.sealed],
			[t("benchmarks.origin"), (one) => (one.generation ? t("benchmarks.made") : t("benchmarks.uploaded"))],
			[t("field.created"), (one) => when(one.created_at), "when"],
		],
		(reply) => reply.benchmarks,
		{ actions: () => [begin()], isLive: ({ status }) => status === "PROCESSING" },
	);
}

/** @param {View} view */
async function showNew(view) {
	const [documents, bases, upstream] = await Promise.all([documentOptions(), baseModels(), upstreamField("generator_provider")]);
	const texts = bases.filter(({ kind }) => kind === "text").map((one) => ({ value: one.model_id, text: one.model_name }));
	const key = onceKey();
	const ofDocuments = form(
		[
			{ name: "benchmark_name", label: t("field.name"), hint: t("field.optional"), more: { maxlength: 200 } },
			{ name: "document_ids", label: t("field.documents"), type: "checks", options: documents },
			{ name: "n_samples", label: t("benchmarks.count"), type: "number", value: 100, more: { min: 1, max: 5000 } },
			{ name: "model", label: t("benchmarks.checker"), options: texts, hint: t("benchmarks.checker.hint") },
			{ name: "generator_model", label: t("align.teacher"), hint: t("benchmarks.generator.hint") },
			...upstream,
			{
				name: "seed",
				label: t("benchmarks.seed"),
				type: "number",
				value: 1,
				hint: t("benchmarks.seed.hint"),
				more: { min: 0, max: 4294967295 },
			},
		],
		{
			submit: t("benchmarks.make"),
			async onSubmit(body) {
				const { benchmark_id } = await call("benchmarks_create", { body, onceKey: key });
				view.go(`#/benchmarks/${benchmark_id}`);
			},
		},
	);
	const file = { name: "file", label: t("benchmarks.file"), required: true, hint: t("benchmarks.file.hint") };
	const ofFile = form([{ ...file, type: "file", more: { accept: ".jsonl,.csv" } }], {
		submit: t("benchmarks.upload"),
		async onSubmit({ file }) {
			const [one] = /** @type {File[]} */ (file);
			if (!one) return;
			const { benchmark_id } = await upload("benchmarks_upload", one);
			view.go(`#/benchmarks/${benchmark_id}`);
		},
	});
	const made =
		documents.length === 0
			? noDocuments()
			: texts.length === 0
				? noModel("models.nobase")
				: [h("p.soft", t("benchmarks.new.lead")), ofDocuments];
	fill(
		view.place,
		head(t("benchmarks.new"), { back: "benchmarks" }),
		h(
			"div.columns",
			section(t("benchmarks.make"), made),
			section(t("benchmarks.upload"), code(t("benchmarks.file.example"), t("benchmarks.file.sample")), ofFile),
		),
	);
}
