// Evaluations: the list, a new one, and two models side by side.
import { call, onceKey } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { head, link, section } from "../parts/page.js";
import { progress } from "../parts/progress.js";
import { badge, empty } from "../parts/states.js";
import { paged, table } from "../parts/table.js";
import { number, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { benchmarkOptions, modelOptions, nameIn } from "./choices.js";
import { showCompare } from "./compare.js";
import { showEvaluation } from "./evaluation.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */

const limit = 20;
const splits = ["dev", "sealed", "retention"];

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id === "compare") return showCompare(view);
	if (view.id !== null) return showEvaluation(view, view.id);
	const { signal, place, fail } = view;
	const load = async (/** @type {number} */ offset) => (await call("evaluations_list", { query: { limit, offset }, signal })).evaluations;
	const [first, models] = await Promise.all([load(0), modelOptions(signal)]);
	const begin = h("a", { class: "button primary", href: "#/evaluations/new" }, t("evaluations.new"));
	const compare = h("a", { class: "button", href: "#/evaluations/compare" }, t("evaluations.compare"));
	const render = (/** @type {typeof first} */ rows) => listOf(rows, models);
	fill(
		place,
		head(t("evaluations.title"), { lead: t("evaluations.lead"), actions: first.length > 0 ? [compare, begin] : [] }),
		first.length === 0
			? empty(t("evaluations.none"), t("evaluations.none.hint"), begin)
			: section(t("evaluations.all"), paged(load, render, { more: t("action.more"), onError: fail, limit, first })),
	);
}

/** @param {Replies["evaluations_list"]["evaluations"]} rows @param {import("./choices.js").Options} models */
const listOf = (rows, models) =>
	table(
		t("evaluations.all"),
		[
			{ head: t("field.name"), cell: (one) => link(`#/evaluations/${one.evaluation_id}`, one.evaluation_name) },
			{ head: t("field.model"), cell: (one) => link(`#/models/${one.model_id}`, nameIn(models, one.model_id)) },
			{
				head: t("field.status"),
				cell: (one) =>
					one.status === "PROCESSING"
						? progress(one.evaluation_name, one.progress_detail, one.progress)
						: badge(one.status, word("status", one.status)),
			},
			{ head: t("field.questions"), cell: (one) => number(one.n_samples), numeric: true },
			{ head: t("field.created"), cell: (one) => when(one.created_at) },
		],
		rows,
	);

/** @param {View} view */
async function showNew({ signal, place, query }) {
	const [models, benchmarks] = await Promise.all([modelOptions(signal), benchmarkOptions(signal)]);
	const back = { href: "#/evaluations", text: t("nav.evaluations") };
	if (benchmarks.length === 0) {
		fill(
			place,
			head(t("evaluations.new"), { back }),
			empty(t("benchmarks.none"), t("benchmarks.none.hint"), link("#/benchmarks/new", t("benchmarks.new"))),
		);
		return;
	}
	const key = onceKey();
	const made = form(
		[
			{ name: "model_id", label: t("field.model"), type: "select", options: models, value: query.get("model") },
			{
				name: "benchmark_id",
				label: t("field.benchmark"),
				type: "select",
				options: benchmarks,
				value: query.get("benchmark"),
			},
			{
				name: "splits",
				label: t("field.split"),
				type: "checks",
				hint: t("evaluation.splits.hint"),
				options: splits.map((value) => ({ value, text: word("split", value) })),
			},
			{
				name: "judge_model_id",
				label: t("evaluation.judge"),
				type: "select",
				hint: t("evaluation.judge.hint"),
				options: [{ value: "", text: t("evaluation.judge.base") }, ...models],
			},
			{ name: "evaluation_name", label: t("field.name"), hint: t("field.optional"), more: { maxlength: 200 } },
		],
		{
			submit: t("evaluation.start"),
			async onSubmit(body) {
				const { evaluation_id } = await call("evaluations_create", { body, signal, onceKey: key });
				go(`#/evaluations/${evaluation_id}`);
			},
		},
	);
	fill(place, head(t("evaluations.new"), { back }), section(t("evaluation.what"), made));
}
