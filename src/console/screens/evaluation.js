// One evaluation: the score with its interval, the comparison with the base, and every item.
import { call } from "../api/client.js";
import { confirmAct } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { filteredItems } from "../parts/items.js";
import { actButton, every, facts, head, link, section } from "../parts/page.js";
import { progress } from "../parts/progress.js";
import { badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { interval, number, points, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["evaluations_results"]} Results */

/** @param {View} view @param {string} id */
export async function showEvaluation(view, id) {
	const { signal, place } = view;
	const params = { evaluation_id: id };
	const record = await call("evaluations_get", { params, signal });
	const results = record.status === "READY" ? await call("evaluations_results", { params, signal }) : null;
	const state = h("div", {}, stateOf(record));
	fill(place, headOf(view, record), state, results && resultsOf(results), aboutOf(record));
	if (record.status === "QUEUED" || record.status === "PROCESSING")
		void every(signal, 2_000, async () => {
			const now = await call("evaluations_get", { params, signal });
			const goesOn = now.status === "QUEUED" || now.status === "PROCESSING";
			if (goesOn) fill(state, stateOf(now));
			else await view.reload();
			return goesOn;
		});
}

/** @param {View} view @param {Replies["evaluations_get"]} record */
function headOf(view, { evaluation_id, evaluation_name, status, model_id, benchmark_id }) {
	const params = { evaluation_id };
	const runs = status === "QUEUED" || status === "PROCESSING";
	const stop = async () => {
		await call("evaluations_stop", { params });
		await view.reload();
	};
	const remove = async () => {
		if (!(await confirmAct(t("evaluation.delete", { name: evaluation_name }), t("evaluation.delete.text"), t("action.delete")))) return;
		await call("evaluations_delete", { params });
		go("#/evaluations");
	};
	return head(evaluation_name, {
		back: { href: "#/evaluations", text: t("nav.evaluations") },
		actions: [
			badge(status, word("status", status)),
			status === "READY" && link(`#/evaluations/compare?model=${model_id}&benchmark=${benchmark_id}`, t("evaluations.compare")),
			runs
				? actButton(t("action.stop"), stop, { kind: "danger", onError: view.fail })
				: actButton(t("action.delete"), remove, { kind: "danger", onError: view.fail }),
		],
	});
}

/** @param {Replies["evaluations_get"]} record */
const stateOf = ({ status, progress: done, progress_detail, waiting_for, error, evaluation_name }) => [
	(status === "QUEUED" || status === "PROCESSING") && section(t("evaluation.answering"), progress(evaluation_name, progress_detail, done)),
	waiting_for != null && notice("warn", h("p", {}, t("state.waits", { what: waiting_for }))),
	error != null && notice("bad", h("p", {}, error)),
];

/** @param {Replies["evaluations_get"]} record */
const aboutOf = ({ evaluation_id, model_id, benchmark_id, n_samples, avg_time_per_sample, created_at, completed_at }) =>
	section(
		t("evaluation.about"),
		facts([
			[t("field.id"), h("code", {}, evaluation_id)],
			[t("field.model"), link(`#/models/${model_id}`, model_id)],
			[t("field.benchmark"), link(`#/benchmarks/${benchmark_id}`, benchmark_id)],
			[t("field.questions"), number(n_samples)],
			[t("evaluation.each"), avg_time_per_sample === null ? "–" : `${number(avg_time_per_sample, 2)} s`],
			[t("field.created"), when(created_at)],
			[t("field.completed"), when(completed_at)],
		]),
	);

/** @param {Results} results */
function resultsOf(results) {
	const { headline, splits, types, paired, minimum_detectable, guards, judge, sealed_touches } = results;
	const tiles = /** @type {const} */ (["sealed", "dev", "retention"])
		.filter((split) => splits[split])
		.map((split) => {
			const score = /** @type {NonNullable<typeof splits.dev>} */ (splits[split]);
			return h(
				"div",
				{ class: "tile" },
				h("b", {}, points(score.score)),
				h("span", {}, `${word("split", split)} · ${points(score.low)}–${points(score.high)} · ${t("evaluation.n", { n: score.n })}`),
			);
		});
	return [
		headline !== null && notice((paired?.low ?? 0) > 0 ? "good" : "warn", h("p", {}, h("strong", {}, headline))),
		h("div", { class: "tiles" }, tiles),
		section(
			t("evaluation.paired"),
			paired ? pairedOf(paired) : h("p", { class: "soft" }, t("evaluation.unpaired")),
			h("p", { class: "small" }, t("evaluation.detectable", { points: points(minimum_detectable) })),
		),
		types.length > 1 && section(t("evaluation.types"), typesOf(types)),
		guards.length > 0 && section(t("evaluation.guards"), guardsOf(guards)),
		judge && section(t("evaluation.judged"), judgeOf(judge)),
		section(t("benchmark.items"), itemsOf(results.items)),
		h("p", { class: "small" }, t("evaluation.touches", { n: sealed_touches.n, models: sealed_touches.models })),
	];
}

/** @param {NonNullable<Results["paired"]>} paired */
const pairedOf = ({ compared_with, difference, low, high, gained, lost, n, p_value, method }) =>
	facts([
		[t("evaluation.against"), link(`#/models/${compared_with}`, compared_with)],
		[t("evaluation.difference"), `${points(difference)} (${points(low)} – ${points(high)})`],
		[t("evaluation.gained"), number(gained)],
		[t("evaluation.lost"), number(lost)],
		[t("field.questions"), number(n ?? 0)],
		["p", number(p_value, 4)],
		[t("evaluation.method"), word("method", method ?? "")],
	]);

/** @param {Results["types"]} types */
const typesOf = (types) =>
	table(
		t("evaluation.types"),
		[
			{ head: t("field.type"), cell: (one) => word("type", one.type) },
			{ head: t("field.questions"), cell: (one) => number(one.n), numeric: true },
			{ head: t("field.score"), cell: (one) => interval(one), numeric: true },
			{ head: t("evaluation.chance"), cell: (one) => points(one.chance), numeric: true },
		],
		types,
	);

/** @param {Results["guards"]} guards */
const guardsOf = (guards) =>
	table(
		t("evaluation.guards"),
		[
			{ head: t("field.suite"), cell: (one) => one.name },
			{ head: t("field.base"), cell: (one) => number(one.base, 2), numeric: true },
			{ head: t("field.aligned"), cell: (one) => number(one.aligned, 2), numeric: true },
			{ head: t("evaluation.most"), cell: (one) => (one.most === null ? "–" : number(one.most, 2)), numeric: true },
			{ head: t("field.questions"), cell: (one) => number(one.n), numeric: true },
		],
		guards,
	);

/** @param {NonNullable<Results["judge"]>} judge */
const judgeOf = ({ model_id, sensitivity, specificity, observed, corrected, same_base }) =>
	facts([
		[t("field.model"), model_id],
		[t("evaluation.sensitivity"), interval(sensitivity)],
		[t("evaluation.specificity"), interval(specificity)],
		[t("evaluation.observed"), points(observed)],
		[t("evaluation.corrected"), points(corrected)],
		[t("evaluation.samebase"), same_base ? t("yes") : t("no")],
	]);

/** @param {Results["items"]} items */
function itemsOf(items) {
	const of = (/** @type {string} */ key, /** @type {string[]} */ values) =>
		[...new Set(values)].map((value) => ({ value, text: word(key, value) }));
	const graded = (/** @type {{ correct: boolean }} */ { correct }) => (correct ? "right" : "wrong");
	return filteredItems(items, {
		filters: [
			{ label: t("evaluation.graded"), choices: of("graded", ["right", "wrong"]), of: graded },
			{
				label: t("field.split"),
				choices: of(
					"split",
					items.map(({ split }) => split),
				),
				of: ({ split }) => split,
			},
			{
				label: t("field.type"),
				choices: of(
					"type",
					items.map(({ type }) => type),
				),
				of: ({ type }) => type,
			},
		],
		textOf: ({ instruction, response, answer }) => `${instruction} ${response} ${answer}`,
		render: (item) =>
			h(
				"li",
				{},
				h(
					"p",
					{},
					badge(item.correct ? "gained" : "lost", word("graded", graded(item))),
					" ",
					h("strong", {}, `${item.sample_num}. ${item.instruction}`),
				),
				facts([
					[t("evaluation.answer"), item.answer || "–"],
					[t("evaluation.expected"), item.response],
				]),
				h(
					"p",
					{ class: "small" },
					[
						word("split", item.split),
						word("type", item.type),
						item.graded_by.reason && word("reason", item.graded_by.reason),
						item.confidence_score !== null && `${t("playground.confidence")} ${number(item.confidence_score)}`,
					]
						.filter(Boolean)
						.join(" · "),
				),
			),
	}).element;
}
