// Home: what runs, what needs attention, and what comes next.
import { alignedModels, call, orNull } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { every, head, link, section } from "../parts/page.js";
import { progress } from "../parts/progress.js";
import { badge, notice } from "../parts/states.js";
import { number, t, when, word } from "../shell/language.js";

/** @import { View } from "../shell/router.js" */

/** @param {View} view */
export async function show(view) {
	const draw = async () => {
		const state = await load(view);
		if (view.signal.aborted) return;
		fill(view.place, head(t("home.title"), { lead: t("home.lead") }), ...content(state));
	};
	await draw();
	void every(view.signal, 4_000, draw);
}

/** @param {View} view */
async function load({ signal }) {
	const ask = { query: { limit: 100 }, signal };
	const [health, base, documents, benchmarks, alignments, models, evaluations] = await Promise.all([
		call("system_health", { signal }),
		orNull(call("models_base", ask), 403),
		orNull(call("documents_list", { query: { limit: 1 }, signal }), 403),
		orNull(call("benchmarks_list", ask), 403),
		orNull(call("alignments_list", ask), 403),
		alignedModels({ signal }),
		orNull(call("evaluations_list", ask), 403),
	]);
	return {
		health,
		bases: base?.base_models ?? [],
		documents: documents?.total ?? 0,
		benchmarks: benchmarks?.benchmarks ?? [],
		alignments: alignments?.alignment_projects ?? [],
		models,
		evaluations: evaluations?.evaluations ?? [],
	};
}

/** @typedef {Awaited<ReturnType<typeof load>>} State */

/** @param {State} state */
const content = (state) => [tiles(state), h("div", { class: "columns" }, running(state), attention(state)), nextSteps(state)];

/** @param {State} state */
function tiles({ documents, benchmarks, alignments, models }) {
	const serving = models.filter(({ deployment_status }) => deployment_status === "DEPLOYED").length;
	/** @type {[number: number, label: string, href: string][]} */
	const all = [
		[documents, t("home.documents", { n: documents }), "#/documents"],
		[benchmarks.length, t("home.benchmarks", { n: benchmarks.length }), "#/benchmarks"],
		[alignments.length, t("home.alignments", { n: alignments.length }), "#/alignments"],
		[serving, t("home.serving", { n: serving }), "#/models"],
	];
	return h(
		"div",
		{ class: "tiles" },
		all.map(([count, label, href]) => h("div", { class: "tile" }, h("b", {}, number(count)), h("span", {}, link(href, label)))),
	);
}

/** @param {State} state */
function running({ benchmarks, alignments, evaluations }) {
	const items = [
		...alignments
			.filter(({ status }) => status === "PENDING")
			.map((one) => work(`#/alignments/${one.id}`, one.name, t("nav.alignments"), null, one.progress ?? 0)),
		...benchmarks
			.filter(({ status }) => status === "PROCESSING")
			.map((one) => work(`#/benchmarks/${one.benchmark_id}`, one.name, t("nav.benchmarks"), one.progress_detail)),
		...evaluations
			.filter(({ status }) => status === "QUEUED" || status === "PROCESSING")
			.map((one) =>
				work(`#/evaluations/${one.evaluation_id}`, one.evaluation_name, t("nav.evaluations"), one.progress_detail, one.progress),
			),
	];
	return section(t("home.running"), items.length > 0 ? h("ul", { class: "list" }, items) : h("p", { class: "soft" }, t("home.idle")));
}

/**
 * @param {string} href
 * @param {string} name
 * @param {string} kind
 * @param {import("../parts/progress.js").Detail | null | undefined} detail
 * @param {number} [percentDone]
 */
const work = (href, name, kind, detail, percentDone) =>
	h("li", {}, h("p", {}, link(href, name), h("span", { class: "small" }, ` · ${kind}`)), progress(name, detail, percentDone));

/** @param {State} state */
function attention({ health, bases, alignments, evaluations, benchmarks }) {
	const items = [
		...health.degraded.map((text) => h("li", {}, badge("degraded", t("home.degraded")), ` ${text}`)),
		...bases
			.filter(({ load_error }) => load_error !== null)
			.map((one) => failed("#/models", one.model_name, one.load_error, one.created_at)),
		...alignments
			.filter(({ status }) => status === "FAILED")
			.slice(0, 5)
			.map((one) => failed(`#/alignments/${one.id}`, one.name, one.error, one.completed_date)),
		...benchmarks
			.filter(({ status }) => status === "FAILED")
			.slice(0, 5)
			.map((one) => failed(`#/benchmarks/${one.benchmark_id}`, one.name, one.error, one.updated_at)),
		...evaluations
			.filter(({ status }) => status === "FAILED")
			.slice(0, 5)
			.map((one) => failed(`#/evaluations/${one.evaluation_id}`, one.evaluation_name, one.error, one.updated_at)),
	];
	return section(t("home.attention"), items.length > 0 ? h("ul", { class: "list" }, items) : notice("good", h("p", {}, t("home.fine"))));
}

/** @param {string} href @param {string} name @param {string | null | undefined} error @param {string | undefined} at */
const failed = (href, name, error, at) =>
	h("li", {}, badge("FAILED", word("status", "FAILED")), " ", link(href, name), h("p", { class: "small" }, `${error ?? ""} · ${when(at)}`));

/** @param {State} state */
function nextSteps({ bases, documents, benchmarks, alignments, models, evaluations }) {
	/** @type {[done: boolean, href: string, title: string, text: string][]} */
	const steps = [
		[bases.some(({ can_be_aligned }) => can_be_aligned), "#/models", t("step.base"), t("step.base.text")],
		[documents > 0, "#/documents", t("step.documents"), t("step.documents.text")],
		[benchmarks.some(({ status }) => status === "READY"), "#/benchmarks", t("step.benchmark"), t("step.benchmark.text")],
		[alignments.some(({ status }) => status === "COMPLETED"), "#/alignments", t("step.align"), t("step.align.text")],
		[evaluations.some(({ status }) => status === "READY"), "#/evaluations", t("step.evaluate"), t("step.evaluate.text")],
		[models.some(({ deployment_status }) => deployment_status === "DEPLOYED"), "#/models", t("step.deploy"), t("step.deploy.text")],
	];
	const next = steps.findIndex(([done]) => !done);
	const items = steps.map(([done, href, title, text], index) =>
		h(
			"li",
			{ class: done ? "done" : index === next ? "next" : "" },
			h(
				"p",
				{},
				link(href, title),
				done && h("span", { class: "hidden" }, ` (${t("step.done")})`),
				h("br"),
				h("span", { class: "small" }, text),
			),
		),
	);
	const asks = h("p", {}, `${t("step.ask")} `, link("#/playground", t("nav.playground")));
	return section(t("home.next"), next < 0 ? asks : h("ol", { class: "steps" }, items));
}
