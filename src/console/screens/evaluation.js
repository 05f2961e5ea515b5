// One evaluation: the score with its interval, the paired comparison with another model, and every item.
import { call } from "../api/client.js";
import {
	actButton,
	deleteButton,
	difference,
	every,
	facts,
	fill,
	filteredItems,
	h,
	head,
	interval,
	itemHead,
	link,
	notice,
	number,
	points,
	progress,
	range,
	said,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	when,
	word,
	yesNo,
} from "../ui.js";
import { linkTo } from "./choices.js";
import { fellWords, scoreWords } from "./compare.js";

/** @typedef {Replies["evaluations_get"]} Evaluation */
/** @typedef {Replies["evaluations_results"]} Results */

/** @param {Evaluation} evaluation */
export const isUnderWay = ({ status }) => status === "QUEUED" || status === "PROCESSING";

/**
 * READY is shown as COMPLETED, as for other work. An evaluation that the user stopped has the status FAILED.
 * @param {{ status: string, stopped?: boolean }} evaluation
 */
export const evaluationBadge = ({ status, stopped }) => statusBadge(stopped ? "STOPPED" : status === "READY" ? "COMPLETED" : status);

/** @param {View} view @param {string} id */
export async function showEvaluation(view, id) {
	const { signal, place } = view;
	const params = id;
	const record = await call("evaluations_get", { params });
	const results = record.status === "READY" ? await call("evaluations_results", { params }) : null;
	const top = h("div", headOf(view, record));
	const state = h("div", stateOf(record));
	const [told, about] = await Promise.all([results && resultsOf(results), aboutOf(record, results)]);
	fill(place, top, state, told, about);
	let { status } = record;
	if (isUnderWay(record))
		void every(signal, 2_000, async () => {
			const now = await call("evaluations_get", { params });
			if (!isUnderWay(now)) return view.reload();
			fill(state, stateOf(now));
			if (now.status !== status) fill(top, headOf(view, now));
			status = now.status;
		});
}

/** @param {{ model_id: string, benchmark_id: string }} of @param {string} [more] */
const compareLink = ({ model_id, benchmark_id }, more = "") => `#/evaluations/compare?model=${model_id}&benchmark=${benchmark_id}${more}`;

/** @param {View} view @param {Evaluation} record */
function headOf(view, record) {
	const { evaluation_id, evaluation_name: name, status } = record;
	const params = evaluation_id;
	const stop = () => call("evaluations_stop", { params }).then(view.reload);
	return head(name, {
		back: "evaluations",
		actions: [
			evaluationBadge(record),
			status === "READY" && link(compareLink(record), t("evaluations.compare")),
			isUnderWay(record)
				? actButton(view, t("action.stop"), stop, { kind: "danger" })
				: deleteButton(view, "evaluations_delete", name, t("evaluation.delete.text")),
		],
	});
}

/** @param {Evaluation} record */
const stateOf = (record) => [
	isUnderWay(record) && section(t("evaluation.answering"), progress(record.evaluation_name, record.progress_detail, record.progress)),
	record.waiting_for != null && notice("warn", t("state.waits", { what: record.waiting_for })),
	record.error != null && !record.stopped && notice("bad", record.error),
];

/** @param {Evaluation} one @param {Results | null} results */
async function aboutOf(one, results) {
	const [model, benchmark] = await Promise.all([linkTo(one.model_id), linkTo(one.benchmark_id)]);
	const uses = results?.sealed_touches;
	return section(
		t("field.about"),
		facts([
			[t("field.model"), model],
			[t("field.benchmark"), benchmark],
			[t("field.questions"), one.n_samples],
			[t("evaluation.each"), one.avg_time_per_sample === null ? "–" : `${number(one.avg_time_per_sample, 2)} s`],
			[t("evaluation.touches"), uses && t("evaluation.touched", { n: uses.n, models: t("evaluation.models", { n: uses.models }) })],
			[t("field.created"), when(one.created_at)],
			[t("field.completed"), when(one.completed_at)],
			[t("field.id"), h("code", one.evaluation_id)],
		]),
	);
}

/** @param {Results} results @param {string} headline */
function headlineOf({ paired, fell = [] }, headline) {
	const { difference: gain, p_value, minimum_detectable } = paired ?? {};
	const code = (gain ?? 0) <= 0 ? "no_gain" : (p_value ?? 1) > 0.05 ? "not_shown" : "shown";
	return said(`verdict.${code}`, headline, { points: points(minimum_detectable), gain: points(gain), fell: fellWords(fell) });
}

/** @param {Results} results */
async function resultsOf(results) {
	const { headline, splits, types, paired, minimum_detectable, guards, judge } = results;
	const tiles = /** @type {const} */ (["sealed", "dev", "retention"]).flatMap((split) => {
		const score = splits[split];
		if (!score) return [];
		const lines = [word("split", split), `${t("field.interval")}: ${range(score.low, score.high)}`, t("evaluation.n", { n: score.n })];
		return [
			h(
				"div.tile",
				h("b", points(score.score), h("small", ` ${t("confidence.of")}`)),
				lines.map((line) => h("div.small", line)),
			),
		];
	});
	return [
		headline !== null && notice((paired?.low ?? 0) > 0 ? "good" : "warn", h("p", h("strong", headlineOf(results, headline)))),
		h("div.tiles", tiles),
		section(
			t("evaluation.paired"),
			paired ? await pairedOf(results, paired) : h("p.soft", t("evaluation.unpaired")),
			smallPrint(t("evaluation.detectable", { points: points(minimum_detectable) })),
		),
		types.length > 1 && section(t("evaluation.types"), typesOf(types), smallPrint(t("field.scale"))),
		guards.length > 0 && section(t("evaluation.guards"), guardsOf(guards)),
		judge && section(t("evaluation.judged"), await judgeOf(judge)),
		section(t("field.questions"), itemsOf(results.items)),
	];
}

/** @param {Results} results @param {NonNullable<Results["paired"]>} paired */
async function pairedOf(results, paired) {
	const { compared_with, gained, lost, n, p_value, method } = paired;
	const items = (/** @type {"gained" | "lost"} */ outcome, /** @type {number} */ count) =>
		count === 0 ? number(0) : link(compareLink(results, `&with=${compared_with}&split=sealed&outcome=${outcome}`), number(count));
	return facts([
		[t("evaluation.compared"), await linkTo(compared_with)],
		[
			`${t("evaluation.difference")}, ${t("field.interval")}`,
			difference(/** @type {{ difference: number, low: number, high: number }} */ (paired)),
		],
		[t("evaluation.gained"), items("gained", gained)],
		[t("evaluation.lost"), items("lost", lost)],
		[t("field.questions"), number(n ?? 0)],
		[t("evaluation.p"), number(p_value, 4)],
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
const judgeOf = async (one) =>
	facts([
		[t("field.model"), await linkTo(one.model_id)],
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
				item.confidence_score !== null && scoreWords(item.confidence_score),
			),
		],
	});
}
