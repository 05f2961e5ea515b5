// One benchmark: what came through which gate, and every item beside the passage that answers it.
import { call, callText, onceKey, orNull } from "../api/client.js";
import { confirmAct, openDialog } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { filteredItems } from "../parts/items.js";
import { actButton, every, facts, head, link, section } from "../parts/page.js";
import { bar, progress } from "../parts/progress.js";
import { badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { number, percent, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["benchmarks_get"]} Benchmark */
/** @typedef {Replies["benchmarks_data"]["samples"][number]} Item */

/** Characters of the document around a cited passage. */
const around = 240;

/** @param {View} view @param {string} id */
export async function showBenchmark(view, id) {
	const { signal, place } = view;
	const params = { benchmark_id: id };
	const benchmark = await call("benchmarks_get", { params, signal });
	const data = benchmark.status === "READY" ? await call("benchmarks_data", { params, signal }) : null;
	const state = h("div", {}, stateOf(benchmark));
	fill(place, headOf(view, benchmark), state, aboutOf(benchmark), gatesOf(benchmark), data && itemsOf(view, benchmark, data.samples));
	if (benchmark.status === "PROCESSING")
		void every(signal, 2_000, async () => {
			const now = await call("benchmarks_get", { params, signal });
			if (now.status === "PROCESSING") fill(state, stateOf(now));
			else await view.reload();
			return now.status === "PROCESSING";
		});
}

/** @param {View} view @param {Benchmark} benchmark */
function headOf(view, { benchmark_id, name, version, status }) {
	const params = { benchmark_id };
	const remove = async () => {
		if (!(await confirmAct(t("benchmark.delete", { name }), t("benchmark.delete.text"), t("action.delete")))) return;
		await call("benchmarks_delete", { params, query: { evaluations: true } });
		go("#/benchmarks");
	};
	const stop = async () => {
		await call("benchmarks_stop", { params });
		await view.reload();
	};
	const isMade = status === "PROCESSING";
	return head(`${name} v${version}`, {
		back: { href: "#/benchmarks", text: t("nav.benchmarks") },
		actions: [
			badge(status, word("status", status)),
			status === "READY" && link(`#/alignments/new?benchmark=${benchmark_id}`, t("alignments.new")),
			status === "READY" && link(`#/evaluations/new?benchmark=${benchmark_id}`, t("evaluations.new")),
			isMade
				? actButton(t("action.stop"), stop, { kind: "danger", onError: view.fail })
				: actButton(t("action.delete"), remove, { kind: "danger", onError: view.fail }),
		],
	});
}

/** @param {Benchmark} benchmark */
const stateOf = ({ status, progress_detail, error, warnings, name }) => [
	status === "PROCESSING" && section(t("benchmark.making"), progress(name, progress_detail)),
	error !== null && notice("bad", h("p", {}, error)),
	warnings.length > 0 &&
		notice(
			"warn",
			h(
				"ul",
				{},
				warnings.map(({ message }) => h("li", {}, message)),
			),
		),
];

/** @param {Benchmark} benchmark */
function aboutOf({ benchmark_id, n_samples, splits, previous_id, struck, created_at, generation, sha256 }) {
	return section(
		t("benchmark.about"),
		facts([
			[t("field.id"), h("code", {}, benchmark_id)],
			[t("field.questions"), number(n_samples)],
			[t("benchmarks.dev"), number(splits.dev)],
			[t("benchmarks.sealed"), number(splits.sealed)],
			[t("benchmarks.retention"), number(splits.retention)],
			[t("benchmarks.origin"), generation ? t("benchmarks.made") : t("benchmarks.uploaded")],
			[t("benchmark.previous"), previous_id ? link(`#/benchmarks/${previous_id}`, t("action.open")) : "–"],
			[t("benchmark.struck"), struck ? `${number(struck.items.length)}: ${struck.reason}` : "–"],
			[t("field.created"), when(created_at)],
			["SHA-256", sha256 ? h("code", {}, sha256.slice(0, 16)) : "–"],
		]),
	);
}

/** @param {Benchmark} benchmark */
function gatesOf({ generation }) {
	if (generation === null || generation.gates.length === 0) return null;
	return section(
		t("benchmark.gates"),
		h("p", { class: "soft" }, t("benchmark.gates.lead")),
		table(
			t("benchmark.gates"),
			[
				{ head: t("benchmark.gate"), cell: (one) => word("gate", one.gate) },
				{ head: t("benchmark.in"), cell: (one) => number(one.in), numeric: true },
				{ head: t("benchmark.out"), cell: (one) => number(one.out), numeric: true },
				{
					head: t("benchmark.share"),
					cell: (one) => (one.skipped ? one.skipped : one.in > 0 ? [bar(one.gate, one.out / one.in), percent(one.out / one.in)] : "–"),
				},
			],
			generation.gates,
		),
		h(
			"p",
			{ class: "small" },
			`${t("benchmarks.checker")}: ${generation.model_id} · ${generation.checker}${generation.generator ? ` · ${t("benchmarks.generator")}: ${generation.generator.model}` : ""}`,
		),
	);
}

/** @param {View} view @param {Benchmark} benchmark @param {Item[]} items */
function itemsOf(view, benchmark, items) {
	const chosen = new Set();
	const strike = h(
		"button",
		{ type: "button", class: "danger", disabled: true, onclick: () => strikeDialog(view, benchmark, [...chosen]) },
		t("benchmark.strike"),
	);
	const onChoice = () => {
		strike.disabled = chosen.size === 0;
		strike.textContent = chosen.size === 0 ? t("benchmark.strike") : t("benchmark.strike.n", { n: chosen.size });
	};
	const choicesOf = (/** @type {string} */ key, /** @type {string[]} */ values) =>
		[...new Set(values)].map((value) => ({ value, text: word(key, value) }));
	const { element, bar: filters } = filteredItems(items, {
		filters: [
			{
				label: t("field.split"),
				choices: choicesOf(
					"split",
					items.map(({ split }) => split),
				),
				of: ({ split }) => split,
			},
			{
				label: t("field.type"),
				choices: choicesOf(
					"type",
					items.map(({ type }) => type),
				),
				of: ({ type }) => type,
			},
		],
		textOf: ({ instruction, response }) => `${instruction} ${response}`,
		render: (item) => itemOf(view, item, chosen, onChoice),
	});
	filters.append(strike);
	return section(t("benchmark.items"), element);
}

/** @param {View} view @param {Item} item @param {Set<unknown>} chosen @param {() => void} onChoice */
function itemOf(view, item, chosen, onChoice) {
	const { sample_num, instruction, response, aliases, type, split, choices, citations } = item;
	const box = h("input", {
		type: "checkbox",
		checked: chosen.has(sample_num),
		"aria-label": t("benchmark.choose", { n: sample_num }),
	});
	box.addEventListener("change", () => {
		if (box.checked) chosen.add(sample_num);
		else chosen.delete(sample_num);
		onChoice();
	});
	const passage = h("div", {});
	const open = h("button", { type: "button", class: "link" }, t("benchmark.passage"));
	open.addEventListener("click", async () => {
		open.remove();
		fill(passage, await Promise.all(citations.map((one) => cited(one, view.signal))));
	});
	return h(
		"li",
		{},
		h("p", {}, box, " ", h("strong", {}, `${sample_num}. ${instruction}`)),
		choices.length > 0 && h("p", { class: "small" }, choices.join(" · ")),
		h("p", {}, response, aliases.length > 0 && h("span", { class: "small" }, ` (${aliases.join(", ")})`)),
		h("p", { class: "small" }, `${word("split", split)} · ${word("type", type)} `, citations.length > 0 && open),
		passage,
	);
}

/** The quote within its document, or by itself where the document is not here. @param {Item["citations"][number]} citation @param {AbortSignal} signal */
async function cited({ document: id, quote, start, end, page }, signal) {
	const text = id.startsWith("document_")
		? await orNull(callText("documents_text", { params: { document_id: id }, signal }), 403, 404)
		: null;
	const at = start ?? text?.indexOf(quote) ?? -1;
	const where = h(
		"span",
		{ class: "small" },
		id.startsWith("document_") ? link(`#/documents/${id}`, t("action.open")) : id,
		page ? ` · ${t("document.page", { page })}` : "",
	);
	if (text === null || at < 0) return h("blockquote", {}, quote, h("br"), where);
	const to = end ?? at + quote.length;
	return h(
		"blockquote",
		{},
		`… ${text.slice(Math.max(0, at - around), at)}`,
		h("mark", {}, text.slice(at, to)),
		`${text.slice(to, to + around)} …`,
		h("br"),
		where,
	);
}

/** @param {View} view @param {Benchmark} benchmark @param {unknown[]} items */
function strikeDialog({ signal }, { benchmark_id }, items) {
	const key = onceKey();
	const made = form([{ name: "reason", label: t("benchmark.reason"), required: true }], {
		submit: t("benchmark.strike"),
		kind: "danger",
		async onSubmit({ reason }) {
			const next = await call("benchmarks_strike", {
				params: { benchmark_id },
				body: { items, reason },
				signal,
				onceKey: key,
			});
			dialog.close();
			go(`#/benchmarks/${next.benchmark_id}`);
		},
	});
	const dialog = openDialog(t("benchmark.strike.n", { n: items.length }), h("p", {}, t("benchmark.strike.text")), made);
}
