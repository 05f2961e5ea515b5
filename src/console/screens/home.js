// Home: work that is running, what needs attention, models in use, the latest results, and the next steps.
import { callIfMay, may, orNull } from "../api/client.js";
import { badge, entries, every, fill, h, head, link, notice, number, progress, section, smallPrint, statusBadge, t, when } from "../ui.js";
import { withErrors } from "./deploy.js";

/** @param {View} view */
export async function show(view) {
	let drawn = "";
	const draw = async () => {
		const state = await load();
		const what = JSON.stringify(state);
		if (view.signal.aborted || what === drawn) return;
		drawn = what;
		fill(view.place, head(t("nav.home"), { lead: t("home.lead") }), content(state));
	};
	await draw();
	void every(view.signal, 5_000, draw);
}

async function load() {
	const ask = (/** @type {number} */ limit, /** @type {string} */ status = "") => ({ query: { limit, status } });
	const alignments = (/** @type {number} */ limit, /** @type {string} */ status = "") => callIfMay("alignments_list", ask(limit, status));
	const evaluations = (/** @type {number} */ limit, /** @type {string} */ status) => callIfMay("evaluations_list", ask(limit, status));
	// The API answers 404 if there are no aligned models.
	const aligned = (/** @type {number} */ limit, /** @type {string} */ deployment_status) =>
		orNull(callIfMay("models_aligned", { query: { limit, deployment_status } }), 404);
	const [health, bases, documents, benchmarks, all, pending, ended, lost, queued, answering, failed, ready, models, idle] =
		await Promise.all([
			callIfMay("system_health"),
			callIfMay("models_base", ask(100)),
			callIfMay("documents_list", ask(1)),
			callIfMay("benchmarks_list", { query: { limit: 100 } }),
			alignments(1),
			alignments(20, "PENDING"),
			alignments(5, "COMPLETED"),
			alignments(5, "FAILED"),
			evaluations(10, "QUEUED"),
			evaluations(10, "PROCESSING"),
			evaluations(20, "FAILED"),
			evaluations(1, "READY"),
			aligned(5, "DEPLOYED"),
			aligned(10, "UNDEPLOYED"),
		]);
	return {
		degraded: health?.degraded ?? [],
		bases: bases?.base_models ?? [],
		benchmarks: benchmarks?.benchmarks ?? [],
		pending: pending?.alignment_projects ?? [],
		ended: ended?.alignment_projects ?? [],
		failed: lost?.alignment_projects ?? [],
		answering: [...(answering?.evaluations ?? []), ...(queued?.evaluations ?? [])],
		unanswered: (failed?.evaluations ?? []).filter(({ stopped }) => !stopped).slice(0, 5),
		undeployed: (await withErrors(idle?.domain_aligned_models ?? [])).filter(({ error }) => error),
		models: models?.domain_aligned_models ?? [],
		counts: {
			documents: documents?.total ?? 0,
			benchmarks: benchmarks?.total ?? 0,
			alignments: all?.total ?? 0,
			models: models?.total ?? 0,
		},
		isEvaluated: (ready?.total ?? 0) > 0,
	};
}

/** @typedef {Awaited<ReturnType<typeof load>>} State */

/** @param {State} state @returns {Child} */
const content = (state) => [
	tiles(state),
	h("div.columns", running(state), attention(state), inUse(state), results(state)),
	nextSteps(state),
];

/** @param {State} state */
function tiles({ counts }) {
	const all = /** @type {const} */ (["documents", "benchmarks", "alignments", "models"]).map((name) => {
		const n = counts[name];
		return h("div.tile", h("b", number(n)), h("span", link(`#/${name}`, t(`home.${name}`, { n }))));
	});
	return h("div.tiles", all);
}

/** @param {State} state */
function running({ benchmarks, pending, answering }) {
	const items = [
		...pending.map((one) => work(`#/alignments/${one.id}`, one.name, t("field.alignment"), one.progress_detail, one.progress ?? 0)),
		...benchmarks
			.filter(({ status }) => status === "PROCESSING")
			.map((one) => work(`#/benchmarks/${one.benchmark_id}`, one.name, t("field.benchmark"), one.progress_detail)),
		...answering.map((one) =>
			work(`#/evaluations/${one.evaluation_id}`, one.evaluation_name, t("job.evaluate"), one.progress_detail, one.progress),
		),
	];
	return section(t("home.running"), items.length > 0 ? entries(items) : h("p.soft", t("home.idle")));
}

/**
 * @param {string} href
 * @param {string} name
 * @param {string} kind
 * @param {Parameters<typeof progress>[1]} detail
 * @param {number} [percentDone]
 */
const work = (href, name, kind, detail, percentDone) => [
	h("p", link(href, name), h("span.small", ` · ${kind}`)),
	progress(name, detail, percentDone),
];

/** @param {State} state */
function attention({ degraded, bases, failed, unanswered, undeployed, benchmarks }) {
	const items = [
		...degraded.map((text) => [badge("degraded", t("home.degraded")), ` ${text}`]),
		...bases
			.filter(({ load_error }) => load_error !== null)
			.map((one) => failure(`#/models/${one.model_id}`, one.model_name, one.load_error, one.created_at)),
		...undeployed.map((one) => failure(`#/models/${one.model_id}`, one.model_name, one.error)),
		...failed.map((one) => failure(`#/alignments/${one.id}`, one.name, one.error, one.completed_date)),
		...benchmarks
			.filter(({ status }) => status === "FAILED")
			.slice(0, 5)
			.map((one) => failure(`#/benchmarks/${one.benchmark_id}`, one.name, one.error, one.updated_at)),
		...unanswered.map((one) => failure(`#/evaluations/${one.evaluation_id}`, one.evaluation_name, one.error, one.updated_at)),
	];
	return section(t("home.attention"), items.length > 0 ? entries(items) : notice("good", t("home.fine")));
}

/** @param {string} href @param {string} name @param {string | null | undefined} error @param {string} [at] */
const failure = (href, name, error, at) => [statusBadge("FAILED"), " ", link(href, name), smallPrint(error, at && when(at))];

/** @param {State} state */
function inUse({ models, counts }) {
	if (models.length === 0) return null;
	const items = models.map(({ model_id, model_name }) => [
		link(`#/models/${model_id}`, model_name),
		may("inference_chat") && [" · ", link(`#/playground?model=${model_id}`, t("model.try"))],
	]);
	return section(t("home.use"), entries(items), counts.models > models.length && h("p", link("#/models", t("home.more"))));
}

/** @param {State} state */
function results({ ended }) {
	if (ended.length === 0) return null;
	const items = ended.map(({ id, name, completed_date, evaluation_id }) => [
		link(`#/alignments/${id}`, name),
		smallPrint(when(completed_date)),
		h(
			"p.small",
			evaluation_id && [link(`#/evaluations/${evaluation_id}`, t("alignment.evaluation")), " · "],
			link(`#/auto-align/${id}`, t("home.better")),
		),
	]);
	return section(t("home.results"), entries(items));
}

/** @param {State} state */
function nextSteps({ bases, benchmarks, counts, ended, models, isEvaluated }) {
	/** @type {[done: boolean, href: string, step: "base" | "documents" | "benchmark" | "align" | "evaluate" | "deploy"][]} */
	const steps = [
		[bases.some(({ can_be_aligned }) => can_be_aligned), "models", "base"],
		[counts.documents > 0, "documents", "documents"],
		[benchmarks.some(({ status }) => status === "READY"), "benchmarks/new", "benchmark"],
		[ended.length > 0, "alignments/new", "align"],
		[isEvaluated, "evaluations/new", "evaluate"],
		[models.length > 0, "models", "deploy"],
	];
	const next = steps.findIndex(([done]) => !done);
	const items = steps.map(([done, href, step], index) =>
		h(
			"li",
			{ class: done ? "done" : index === next ? "next" : "" },
			h(
				"p",
				link(`#/${href}`, t(`step.${step}`)),
				done && h("span.hidden", ` (${t("step.done")})`),
				h("br"),
				h("span.small", t(`step.${step}.text`)),
			),
		),
	);
	return section(t("home.next"), next < 0 && h("p", t("step.ask")), h("ol.steps", items));
}
