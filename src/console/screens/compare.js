// Two models side by side on the items of a benchmark: what one wins, what it loses.
import { call } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { filteredItems } from "../parts/items.js";
import { head, section } from "../parts/page.js";
import { badge } from "../parts/states.js";
import { table } from "../parts/table.js";
import { interval, number, points, t, word } from "../shell/language.js";
import { benchmarkOptions, modelOptions, nameIn } from "./choices.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["evaluations_compare"]} Comparison */

/** @param {View} view */
export async function showCompare({ signal, place, query }) {
	const [models, benchmarks] = await Promise.all([modelOptions(signal), benchmarkOptions(signal)]);
	const shown = h("div", { "aria-live": "polite" });
	const wanted = query.get("model");
	const made = form(
		[
			{ name: "model_id", label: t("field.model"), type: "select", options: models, value: wanted },
			{
				name: "compared_with",
				label: t("evaluation.against"),
				type: "select",
				options: models,
				value: models.findLast(({ value }) => value !== wanted)?.value ?? null,
			},
			{
				name: "benchmark_id",
				label: t("field.benchmark"),
				type: "select",
				options: benchmarks,
				value: query.get("benchmark"),
			},
		],
		{
			submit: t("evaluations.compare"),
			async onSubmit(body) {
				fill(shown);
				const comparison = await call("evaluations_compare", { body, signal });
				fill(shown, comparisonOf(comparison, nameIn(models, comparison.model_id), nameIn(models, comparison.compared_with)));
			},
		},
	);
	fill(
		place,
		head(t("evaluations.compare"), {
			lead: t("compare.lead"),
			back: { href: "#/evaluations", text: t("nav.evaluations") },
		}),
		h("div", { class: "card grid-form" }, made),
		shown,
	);
	if (wanted !== null && query.get("benchmark") !== null) made.requestSubmit();
}

/** @param {Comparison} comparison @param {string} name @param {string} other */
function comparisonOf({ scores, compared_scores, splits, items }, name, other) {
	const rows = /** @type {const} */ (["dev", "sealed", "retention"]).filter((split) => splits[split]);
	const of = (/** @type {string} */ key, /** @type {string[]} */ values) =>
		[...new Set(values)].map((value) => ({ value, text: word(key, value) }));
	return [
		section(
			t("compare.scores"),
			table(
				t("compare.scores"),
				[
					{ head: t("field.split"), cell: (split) => word("split", split) },
					{ head: name, cell: (split) => interval(scores[split]), numeric: true },
					{ head: other, cell: (split) => interval(compared_scores[split]), numeric: true },
					{
						head: t("evaluation.difference"),
						cell: (split) => `${points(splits[split]?.difference)} (${points(splits[split]?.low)} – ${points(splits[split]?.high)})`,
						numeric: true,
					},
					{ head: t("evaluation.gained"), cell: (split) => number(splits[split]?.gained ?? 0), numeric: true },
					{ head: t("evaluation.lost"), cell: (split) => number(splits[split]?.lost ?? 0), numeric: true },
					{ head: "p", cell: (split) => number(splits[split]?.p_value ?? 1, 4), numeric: true },
				],
				rows,
			),
		),
		section(
			t("compare.items"),
			filteredItems(
				[...items].sort((a, b) => Number(a.outcome === "same") - Number(b.outcome === "same")),
				{
					filters: [
						{
							label: t("compare.outcome"),
							choices: of("outcome", ["gained", "lost", "same"]),
							of: ({ outcome }) => outcome,
						},
						{
							label: t("field.split"),
							choices: of(
								"split",
								items.map(({ split }) => split),
							),
							of: ({ split }) => split,
						},
					],
					textOf: ({ instruction, response }) => `${instruction} ${response}`,
					render: (item) =>
						h(
							"li",
							{},
							h(
								"p",
								{},
								badge(item.outcome, word("outcome", item.outcome)),
								" ",
								h("strong", {}, `${item.sample_num}. ${item.instruction}`),
							),
							h("p", { class: "small" }, `${t("evaluation.expected")}: ${item.response}`),
							h("div", { class: "columns" }, sideOf(name, item.model), sideOf(other, item.compared)),
						),
				},
			).element,
		),
	];
}

/** @param {string} name @param {Comparison["items"][number]["model"]} side */
const sideOf = (name, { answer, correct, confidence_score }) =>
	h(
		"div",
		{},
		h(
			"p",
			{ class: "small" },
			`${name} · ${word("graded", correct ? "right" : "wrong")}${confidence_score === null ? "" : ` · ${t("playground.confidence")} ${number(confidence_score)}`}`,
		),
		h("blockquote", {}, answer || "–"),
	);
