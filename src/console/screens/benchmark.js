// One benchmark: how many items passed each gate, and every item with the passage that answers it.
import { call, callText, may, onceKey, orNull } from "../api/client.js";
import {
	actButton,
	bar,
	deleteButton,
	every,
	facts,
	fill,
	filteredItems,
	form,
	h,
	head,
	link,
	list,
	notice,
	number,
	openDialog,
	percent,
	progress,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	when,
	word,
} from "../ui.js";

import { linkTo, nameOf } from "./choices.js";

/** @typedef {Replies["benchmarks_get"]} Benchmark */
/** @typedef {Replies["benchmarks_data"]["samples"][number]} Item */

/** Number of characters of the document that are shown on each side of a quote. */
const around = 240;

/** @param {View} view @param {string} id */
export async function showBenchmark(view, id) {
	const { signal, place } = view;
	const params = id;
	const benchmark = await call("benchmarks_get", { params });
	const data = benchmark.status === "READY" ? await call("benchmarks_data", { params }) : null;
	const state = h("div", stateOf(benchmark));
	const [about, gates] = await Promise.all([aboutOf(benchmark), gatesOf(benchmark)]);
	fill(place, headOf(view, benchmark), state, about, gates, data && itemsOf(view, data.samples));
	if (benchmark.status === "PROCESSING")
		void every(signal, 2_000, async () => {
			const now = await call("benchmarks_get", { params });
			if (now.status !== "PROCESSING") return view.reload();
			fill(state, stateOf(now));
		});
}

/** @param {View} view @param {Benchmark} benchmark */
function headOf(view, { benchmark_id, name, version, status }) {
	const params = benchmark_id;
	const stop = () => call("benchmarks_stop", { params }).then(view.reload);
	return head(`${name} v${version}`, {
		back: "benchmarks",
		actions: [
			statusBadge(status),
			status === "READY" &&
				may("alignments_create") && [
					link(`#/alignments/new?benchmark=${benchmark_id}`, t("alignments.new")),
					link(`#/evaluations/new?benchmark=${benchmark_id}`, t("evaluations.new")),
				],
			status === "PROCESSING"
				? actButton(view, t("action.stop"), stop, { kind: "danger" })
				: deleteButton(view, "benchmarks_delete", name, t("benchmark.delete.text"), { query: { evaluations: true } }),
		],
	});
}

/** @param {Benchmark} benchmark */
const stateOf = ({ status, progress_detail, error, warnings, name }) => [
	status === "PROCESSING" && section(t("benchmark.making"), progress(name, progress_detail)),
	error !== null && notice("bad", error),
	warnings.length > 0 && notice("warn", list(warnings.map(({ message }) => message))),
];

/** @param {Benchmark} one */
const aboutOf = async (one) =>
	section(
		t("field.about"),
		facts([
			[t("field.questions"), one.n_samples],
			[t("benchmarks.dev"), one.splits.dev],
			[t("benchmarks.sealed"), one.splits.sealed],
			[t("benchmarks.retention"), one.splits.retention],
			[t("benchmarks.origin"), one.generation ? t("benchmarks.made") : t("benchmarks.uploaded")],
			[t("benchmark.previous"), await linkTo(one.previous_id)],
			[t("benchmark.struck"), one.struck ? `${number(one.struck.items.length)}: ${one.struck.reason}` : "–"],
			[t("field.created"), when(one.created_at)],
			["SHA-256", one.sha256 ? h("code", `${one.sha256.slice(0, 16)}…`) : "–"],
			[t("field.id"), h("code", one.benchmark_id)],
		]),
	);

/** @param {Benchmark} benchmark */
async function gatesOf({ generation }) {
	if (generation === null || generation.gates.length === 0) return null;
	const { gates, model_id, checker, generator } = generation;
	const checkedBy = (await nameOf(model_id)) ?? model_id;
	return section(
		t("benchmark.gates"),
		h("p.soft", t("benchmark.gates.lead")),
		table(
			t("benchmark.gates"),
			[
				[t("benchmark.gate"), (one) => word("gate", one.gate)],
				[t("benchmark.in"), (one) => one.in],
				[t("benchmark.out"), (one) => one.out],
				[t("benchmark.share"), (one) => one.skipped || (one.in > 0 ? [bar(one.gate, one.out / one.in), percent(one.out / one.in)] : "–")],
			],
			gates,
		),
		smallPrint(`${t("benchmarks.checker")}: ${checkedBy}`, checker, generator && `${t("align.teacher")}: ${generator.model}`),
	);
}

/** @param {View} view @param {Item[]} items */
function itemsOf(view, items) {
	/** @type {Set<number>} */
	const chosen = new Set();
	const strike = h("button", { class: "danger", disabled: true, onclick: () => strikeDialog(view, [...chosen]) }, t("benchmark.strike"));
	/** @param {number} item @param {boolean} is */
	const choose = (item, is) => {
		if (is) chosen.add(item);
		else chosen.delete(item);
		strike.disabled = chosen.size === 0;
		strike.textContent = chosen.size === 0 ? t("benchmark.strike") : t("benchmark.strike.n", { n: chosen.size });
	};
	return section(
		t("field.questions"),
		filteredItems(items, {
			filters: [
				{ label: t("field.split"), group: "split", of: ({ split }) => split },
				{ label: t("field.type"), group: "type", of: ({ type }) => type },
			],
			textOf: ({ instruction, response }) => `${instruction} ${response}`,
			render: (item) => itemOf(view, item, chosen.has(item.sample_num), choose),
			actions: strike,
		}),
	);
}

/** @param {View} view @param {Item} item @param {boolean} isChosen @param {(item: number, is: boolean) => void} choose */
function itemOf(view, item, isChosen, choose) {
	const { sample_num, instruction, response, aliases, type, split, choices, citations } = item;
	const box = h("input", { type: "checkbox", checked: isChosen, "aria-label": t("benchmark.choose", { n: sample_num }) });
	box.addEventListener("change", () => choose(sample_num, box.checked));
	const passage = h("div");
	const show = async () => fill(passage, await Promise.all(citations.map(cited)));
	const open = actButton(view, t("benchmark.passage"), show, { kind: "link" });
	const strike = h(
		"button",
		{
			class: "link",
			"aria-label": `${t("benchmark.strike")}: ${sample_num}`,
			onclick: () => strikeDialog(view, [sample_num]),
		},
		t("benchmark.strike"),
	);
	return [
		h("p", box, " ", h("strong", `${sample_num}. ${instruction}`)),
		choices.length > 0 && smallPrint(...choices),
		h("p", `${t("evaluation.expected")}: ${response}`, aliases.length > 0 && h("span.small", ` (${aliases.join(", ")})`)),
		smallPrint(word("split", split), word("type", type), citations.length > 0 && open, strike),
		passage,
	];
}

/** Shows the quote within its document, or alone if the document is not available. @param {Item["citations"][number]} citation */
async function cited({ document: id, quote, start, end, page }) {
	const isHere = id.startsWith("document_");
	const text = isHere ? await orNull(callText("documents_text", { params: id }), 404) : null;
	const at = start ?? text?.indexOf(quote) ?? -1;
	const where = h(
		"span.small",
		isHere ? link(`#/documents/${id}`, t("action.open")) : id,
		page ? ` · ${t("document.page", { page })}` : "",
	);
	const to = end ?? at + quote.length;
	const shown =
		text === null || at < 0
			? quote
			: [`… ${text.slice(Math.max(0, at - around), at)}`, h("mark", text.slice(at, to)), `${text.slice(to, to + around)} …`];
	return h("blockquote", shown, h("br"), where);
}

/** @param {View} view @param {number[]} items */
function strikeDialog(view, items) {
	const key = onceKey();
	const made = form([{ name: "reason", label: t("benchmark.reason"), required: true }], {
		submit: t("benchmark.strike"),
		kind: "danger",
		async onSubmit({ reason }) {
			const body = { items, reason };
			const next = await call("benchmarks_strike", { params: String(view.id), body, onceKey: key });
			dialog.close();
			view.go(`#/benchmarks/${next.benchmark_id}`);
		},
	});
	const dialog = openDialog(t("benchmark.strike.n", { n: items.length }), [h("p", t("benchmark.strike.text")), made]);
}
