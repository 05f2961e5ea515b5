// Evaluations: the list, a new one, and two models side by side.
import { call, onceKey } from "../api/client.js";
import { empty, fill, form, h, head, link, listScreen, mainLink, optionsOf, progress, section, t, when } from "../ui.js";
import { benchmarkOptions, modelOptions, nameIn, noModel } from "./choices.js";
import { showCompare } from "./compare.js";
import { evaluationBadge, isUnderWay, showEvaluation } from "./evaluation.js";

const splits = ["dev", "sealed", "retention"];

const actions = () => [
	h("a.button", { href: "#/evaluations/compare" }, t("evaluations.compare")),
	mainLink("#/evaluations/new", t("evaluations.new")),
];

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id === "compare") return showCompare(view);
	if (view.id !== null) return showEvaluation(view, view.id);
	const models = await modelOptions();
	await listScreen(
		view,
		"evaluations",
		[
			[t("field.name"), (one) => link(`#/evaluations/${one.evaluation_id}`, one.evaluation_name)],
			[t("field.model"), (one) => link(`#/models/${one.model_id}`, nameIn(models, one.model_id))],
			[
				t("field.status"),
				(one) => (one.status === "PROCESSING" ? progress(one.evaluation_name, one.progress_detail, one.progress) : evaluationBadge(one)),
			],
			[t("field.questions"), (one) => one.n_samples],
			[t("field.created"), (one) => when(one.created_at), "when"],
		],
		(reply) => reply.evaluations,
		{ actions, isLive: isUnderWay },
	);
}

/** @param {View} view */
async function showNew(view) {
	const { place, query } = view;
	const [models, benchmarks] = await Promise.all([modelOptions(), benchmarkOptions()]);
	const top = head(t("evaluations.new"), { back: "evaluations" });
	if (benchmarks.length === 0)
		return fill(place, top, empty(t("benchmarks.none"), t("benchmarks.none.hint"), mainLink("#/benchmarks/new", t("benchmarks.new"))));
	if (models.length === 0) return fill(place, top, noModel("models.nobase"));
	const key = onceKey();
	const made = form(
		[
			{ name: "model_id", label: t("field.model"), options: models, value: query.get("model") },
			{ name: "benchmark_id", label: t("field.benchmark"), options: benchmarks, value: query.get("benchmark") },
			{
				name: "splits",
				label: t("field.split"),
				type: "checks",
				hint: t("evaluation.splits.hint"),
				options: optionsOf(splits, "splits"),
			},
			{
				name: "judge_model_id",
				label: t("evaluation.judge"),
				hint: t("evaluation.judge.hint"),
				options: [{ value: "", text: t("evaluation.judge.base") }, ...models],
			},
			{ name: "evaluation_name", label: t("field.name"), hint: t("field.optional"), more: { maxlength: 200 } },
		],
		{
			submit: t("evaluations.start"),
			async onSubmit(body) {
				const { evaluation_id } = await call("evaluations_create", { body, onceKey: key });
				view.go(`#/evaluations/${evaluation_id}`);
			},
		},
	);
	fill(place, top, section(t("evaluation.what"), made));
}
