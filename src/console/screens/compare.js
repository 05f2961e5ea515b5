// Two models side by side on the items of a benchmark: which items only one of them answers correctly.
import { call } from "../api/client.js";
import {
	difference,
	empty,
	fill,
	filteredItems,
	form,
	h,
	head,
	interval,
	itemHead,
	mainLink,
	number,
	said,
	section,
	smallPrint,
	t,
	table,
	word,
} from "../ui.js";
import { benchmarkOptions, modelOptions, nameIn } from "./choices.js";

/**
 * Returns the end of a translated verdict, which names what got worse. Empty if nothing did, and in English.
 * @param {string[]} names of regression suites
 */
export const fellWords = (names) => (names.length === 0 ? "" : said("fell", "", { names: names.join(", ") }));

/** @typedef {Replies["evaluations_compare"]} Comparison */

/** @param {View} view */
export async function showCompare({ place, query }) {
	const [models, benchmarks] = await Promise.all([modelOptions(), benchmarkOptions()]);
	const top = head(t("evaluations.compare"), { lead: t("compare.lead"), back: "evaluations" });
	if (benchmarks.length === 0 || models.length < 2) {
		const act =
			benchmarks.length === 0 ? mainLink("#/benchmarks/new", t("benchmarks.new")) : mainLink("#/alignments/new", t("alignments.new"));
		return fill(place, top, empty(t("compare.none"), t("compare.none.hint"), act));
	}
	const shown = h("div", { "aria-live": "polite" });
	const wanted = query.get("model");
	const other = query.get("with") ?? models.findLast(({ value }) => value !== wanted)?.value ?? null;
	const made = form(
		[
			{ name: "model_id", label: t("field.model"), options: models, value: wanted },
			{ name: "compared_with", label: t("evaluation.against"), options: models, value: other },
			{ name: "benchmark_id", label: t("field.benchmark"), options: benchmarks, value: query.get("benchmark") },
		],
		{
			submit: t("evaluations.compare"),
			async onSubmit(body) {
				fill(shown);
				const comparison = await call("evaluations_compare", { body });
				const names = [comparison.model_id, comparison.compared_with].map((id) => nameIn(models, id));
				fill(shown, scoresOf(comparison, names), itemsOf(comparison, names, query));
			},
		},
	);
	fill(place, top, h("div.card.grid-form", made), shown);
	if (wanted !== null && query.get("benchmark") !== null) made.requestSubmit();
}

/** @param {Comparison} comparison @param {string[]} names */
function scoresOf({ scores, compared_scores, splits }, [name = "", other = ""]) {
	const rows = /** @type {const} */ (["dev", "sealed", "retention"]).filter((split) => splits[split]);
	return section(
		t("compare.scores"),
		table(
			t("compare.scores"),
			[
				[t("field.split"), (split) => word("split", split)],
				[name, (split) => interval(scores[split]), "numeric name"],
				[other, (split) => interval(compared_scores[split]), "numeric name"],
				[t("evaluation.difference"), (split) => difference(splits[split]), "numeric"],
				[t("evaluation.gained"), (split) => number(splits[split]?.gained ?? 0), "numeric"],
				[t("evaluation.lost"), (split) => number(splits[split]?.lost ?? 0), "numeric"],
				[t("evaluation.p"), (split) => number(splits[split]?.p_value ?? 1, 4), "numeric"],
			],
			rows,
		),
		smallPrint([t("field.scale"), t("compare.note", { model: name, other }), t("evaluation.p.hint")].join(" ")),
	);
}

/**
 * Shows the items, those with different outcomes first.
 * @param {Comparison} comparison @param {string[]} names @param {URLSearchParams} query
 */
function itemsOf({ items }, [name = "", other = ""], query) {
	const sorted = [...items].sort((a, b) => Number(a.outcome === "same") - Number(b.outcome === "same"));
	return section(
		t("compare.items"),
		filteredItems(sorted, {
			filters: [
				{ label: t("compare.outcome"), group: "outcome", of: ({ outcome }) => outcome, chosen: query.get("outcome") },
				{ label: t("field.split"), group: "split", of: ({ split }) => split, chosen: query.get("split") },
			],
			textOf: ({ instruction, response }) => `${instruction} ${response}`,
			render: (item) => [
				itemHead(item.outcome, word("outcome", item.outcome), item),
				smallPrint(`${t("evaluation.expected")}: ${item.response}`),
				h("div.columns", sideOf(name, item.model), sideOf(other, item.compared)),
			],
		}),
	);
}

/** @param {number} score */
export const scoreWords = (score) => `${t("confidence.score")} ${number(score)} ${t("confidence.of")}`;

/** @param {string} name @param {Comparison["items"][number]["model"]} side */
const sideOf = (name, { answer, correct, confidence_score }) =>
	h(
		"div",
		smallPrint(name, word("graded", correct ? "right" : "wrong"), confidence_score !== null && scoreWords(confidence_score)),
		h("blockquote", answer || "–"),
	);
