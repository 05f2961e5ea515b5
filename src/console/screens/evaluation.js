// One evaluation: the score with its interval, the comparison with the base, and every item.
import { call } from "../api/client.js";
import {
	actButton,
	dangerButton,
	every,
	facts,
	fill,
	filteredItems,
	go,
	h,
	head,
	interval,
	itemHead,
	link,
	notice,
	number,
	points,
	progress,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	when,
	word,
	yesNo,
} from "../ui.js";
import { difference } from "./compare.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["evaluations_get"]} Evaluation */
/** @typedef {Replies["evaluations_results"]} Results */

/** @param {Evaluation} evaluation */
export const isUnderWay = ({ status }) => status === "QUEUED" || status === "PROCESSING";

/** @param {View} view @param {string} id */
export async function showEvaluation(view, id) {
	const { signal, place } = view;
	const params = id;
	const record = await call("evaluations_get", { params });
	const results = record.status === "READY" ? await call("evaluations_results", { params }) : null;
	const state = h("div", stateOf(record));
	fill(place, headOf(view, record), state, results && resultsOf(results), aboutOf(record));
	if (isUnderWay(record))
		void every(signal, 2_000, async () => {
			const now = await call("evaluations_get", { params });
			if (isUnderWay(now)) fill(state, stateOf(now));
			else await view.reload();
			return isUnderWay(now);
		});
}

/** @param {{ model_id: string, benchmark_id: string }} of @param {string} [more] */
const compareLink = ({ model_id, benchmark_id }, more = "") => `#/evaluations/compare?model=${model_id}&benchmark=${benchmark_id}${more}`;

/** @param {View} view @param {Evaluation} record */
function headOf(view, record) {
	const { evaluation_id, evaluation_name: name, status } = record;
	const params = evaluation_id;
	const stop = () => call("evaluations_stop", { params }).then(view.reload);
	const remove = () => call("evaluations_delete", { params }).then(() => go("#/evaluations"));
	return head(name, {
		back: "evaluations",
		actions: [
			statusBadge(status),
			status === "READY" && link(compareLink(record), t("evaluations.compare")),
			isUnderWay(record)
				? actButton(view, t("action.stop"), stop, { kind: "danger" })
				: dangerButton(view, t("action.delete"), t("action.delete.of", { name }), t("evaluation.delete.text"), remove),
		],
	});
}

/** @param {Evaluation} record */
const stateOf = (record) => [
	isUnderWay(record) && section(t("evaluation.answering"), progress(record.evaluation_name, record.progress_detail, record.progress)),
	record.waiting_for != null && notice("warn", t("state.waits", { what: record.waiting_for })),
	record.error != null && notice("bad", record.error),
];

/** @param {Evaluation} one */
const aboutOf = (one) =>
	section(
		t("field.about"),
		facts([
			[t("field.id"), h("code", one.evaluation_id)],
			[t("field.model"), link(`#/models/${one.model_id}`, one.model_id)],
			[t("field.benchmark"), link(`#/benchmarks/${one.benchmark_id}`, one.benchmark_id)],
			[t("field.questions"), one.n_samples],
			[t("evaluation.each"), one.avg_time_per_sample === null ? "–" : `${number(one.avg_time_per_sample, 2)} s`],
			[t("field.created"), when(one.created_at)],
			[t("field.completed"), when(one.completed_at)],
		]),
	);

/** @param {Results} results */
function resultsOf(results) {
	const { headline, splits, types, paired, minimum_detectable, guards, judge, sealed_touches } = results;
	const tiles = /** @type {const} */ (["sealed", "dev", "retention"]).flatMap((split) => {
		const score = splits[split];
		if (!score) return [];
		const words = `${word("split", split)} · ${points(score.low)}–${points(score.high)} · ${t("evaluation.n", { n: score.n })}`;
		return [h("div.tile", h("b", points(score.score)), h("span", words))];
	});
	return [
		headline !== null && notice((paired?.low ?? 0) > 0 ? "good" : "warn", h("p", h("strong", headline))),
		h("div.tiles", tiles),
		section(
			t("evaluation.paired"),
			paired ? pairedOf(results, paired) : h("p.soft", t("evaluation.unpaired")),
			smallPrint(t("evaluation.detectable", { points: points(minimum_detectable) })),
		),
		types.length > 1 && section(t("evaluation.types"), typesOf(types)),
		guards.length > 0 && section(t("evaluation.guards"), guardsOf(guards)),
		judge && section(t("evaluation.judged"), judgeOf(judge)),
		section(t("field.questions"), itemsOf(results.items)),
		smallPrint(t("evaluation.touches", { n: sealed_touches.n, models: sealed_touches.models })),
	];
}

/** @param {Results} results @param {NonNullable<Results["paired"]>} paired */
function pairedOf(results, paired) {
	const { compared_with, gained, lost, n, p_value, method } = paired;
	const items = (/** @type {"gained" | "lost"} */ outcome, /** @type {number} */ count) =>
		count === 0 ? number(0) : link(compareLink(results, `&with=${compared_with}&split=sealed&outcome=${outcome}`), number(count));
	return facts([
		[t("evaluation.against"), link(`#/models/${compared_with}`, compared_with)],
		[t("evaluation.difference"), difference(/** @type {{ difference: number, low: number, high: number }} */ (paired))],
		[t("evaluation.gained"), items("gained", gained)],
		[t("evaluation.lost"), items("lost", lost)],
		[t("field.questions"), number(n ?? 0)],
		["p", number(p_value, 4)],
		[t("evaluation.method"), word("method", method ?? "")],
	]);
}

/** @param {Results["types"]} types */
const typesOf = (types) =>
	table(
		t("evaluation.types"),
		[
			[t("field.type"), (one) => word("type", one.type)],
			[t("field.questions"), (one) => one.n],
			[t("field.score"), interval, "numeric"],
			[t("evaluation.chance"), (one) => points(one.chance), "numeric"],
		],
		types,
	);

/** @param {Results["guards"]} guards */
const guardsOf = (guards) =>
	table(
		t("evaluation.guards"),
		[
			[t("field.suite"), (one) => one.name],
			[t("field.base"), (one) => number(one.base, 2), "numeric"],
			[t("field.aligned"), (one) => number(one.aligned, 2), "numeric"],
			[t("evaluation.most"), (one) => number(one.most, 2), "numeric"],
			[t("field.questions"), (one) => one.n],
		],
		guards,
	);

/** @param {NonNullable<Results["judge"]>} one */
const judgeOf = (one) =>
	facts([
		[t("field.model"), one.model_id],
		[t("evaluation.sensitivity"), interval(one.sensitivity)],
		[t("evaluation.specificity"), interval(one.specificity)],
		[t("evaluation.observed"), points(one.observed)],
		[t("evaluation.corrected"), points(one.corrected)],
		[t("evaluation.samebase"), yesNo(one.same_base)],
	]);

/** @param {Results["items"]} items */
function itemsOf(items) {
	const graded = (/** @type {{ correct: boolean }} */ { correct }) => (correct ? "right" : "wrong");
	return filteredItems(items, {
		filters: [
			{ label: t("evaluation.graded"), group: "graded", of: graded },
			{ label: t("field.split"), group: "split", of: ({ split }) => split },
			{ label: t("field.type"), group: "type", of: ({ type }) => type },
		],
		textOf: ({ instruction, response, answer }) => `${instruction} ${response} ${answer}`,
		render: (item) => [
			itemHead(item.correct ? "gained" : "lost", word("graded", graded(item)), item),
			facts([
				[t("evaluation.answer"), item.answer],
				[t("evaluation.expected"), item.response],
			]),
			smallPrint(
				word("split", item.split),
				word("type", item.type),
				item.graded_by.reason && word("reason", item.graded_by.reason),
				item.confidence_score !== null && `${t("playground.confidence")} ${number(item.confidence_score)}`,
			),
		],
	});
}
