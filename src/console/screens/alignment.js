// One alignment: its state, its loss and dev score while it runs, and its result.
import { call, download, events, may, orNull } from "../api/client.js";
import { addEvent, keepLog, restoreLog, smoothed } from "../parts/run-log.js";
import {
	actButton,
	badge,
	dangerButton,
	deleteButton,
	details,
	duration,
	entries,
	every,
	facts,
	fill,
	h,
	head,
	inHand,
	interval,
	lineChart,
	link,
	list,
	notice,
	number,
	pagedTable,
	percent,
	points,
	progress,
	said,
	scoreChart,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	timeOf,
	when,
	word,
	yesNo,
} from "../ui.js";

import { linkTo } from "./choices.js";
import { fellWords } from "./compare.js";

/** @typedef {Replies["alignments_status"]} Status */

const phases = ["queued", "preparing", "training", "checking", "repairing", "packaging"];

/** @param {Status} status */
const isOver = ({ status }) => !["PROCESSING", "STOPPING"].includes(status);

/** @param {View} view @param {string} id */
export async function showAlignment(view, id) {
	const { signal, place } = view;
	const ask = () => call("alignments_status", { params: id });
	let status = await ask();
	const log = restoreLog(id);
	const top = h("div");
	const state = h("div");
	const result = h("div");
	const notes = h("div");
	const charts = chartsOf(log, signal);
	const notesCard = h("div", section(t("alignment.notes"), notes));
	const learned = h("div");
	const settings = h("div");
	fill(place, top, state, result, learned, charts.element, notesCard, settings);

	let drawn = "";
	const draw = () => {
		// The head is redrawn only if the state has changed, so that the button of an open confirmation dialog stays.
		const what = `${status.status} ${status.phase}`;
		if (what !== drawn) fill(top, headOf(view, status));
		drawn = what;
		fill(state, stateOf(status, log));
		fill(notes, entries(log.notes.map(noteOf).reverse()));
		notesCard.hidden = log.notes.length === 0;
		charts.draw();
	};
	const conclude = async () => {
		fill(result, resultOf(status));
		fill(settings, await settingsOf(status));
		if (!["queued", "preparing"].includes(status.last_phase ?? status.phase)) fill(learned, await learnedOf(view, id));
	};
	draw();
	await conclude();
	void every(signal, 2_500, async () => {
		if (isOver(status)) return false;
		status = await ask();
		draw();
		if (isOver(status)) await conclude();
		return !isOver(status);
	});
	follow(id, log, signal, draw).catch(view.fail);
}

/**
 * Adds the run's events to the log as they arrive, and redraws at most every 300 ms.
 * @param {string} id @param {RunLog} log @param {AbortSignal} signal @param {() => void} draw
 */
async function follow(id, log, signal, draw) {
	let isDue = false;
	const keep = () => keepLog(id, log);
	addEventListener("pagehide", keep, { signal });
	signal.addEventListener("abort", keep);
	for await (const { data } of events("alignments_events", { params: id, signal }, log.lastId)) {
		addEvent(log, JSON.parse(data));
		if (isDue) continue;
		isDue = true;
		setTimeout(() => {
			isDue = false;
			if (!signal.aborted) draw();
		}, 300);
	}
}

/** @param {View} view @param {Status} status */
function headOf(view, status) {
	const { alignment_id, name, model_id, evaluation_id } = status;
	const params = alignment_id;
	const over = isOver(status);
	// Before training, while a teacher is asked too, the API refuses to stop an alignment, but deletes it.
	const isBefore = ["queued", "preparing"].includes(status.phase);
	const canStop = status.status === "PROCESSING" && !isBefore;
	return head(name, {
		back: "alignments",
		actions: [
			statusBadge(status.status),
			model_id && link(`#/models/${model_id}`, t("alignment.model")),
			evaluation_id && link(`#/evaluations/${evaluation_id}`, t("alignment.evaluation")),
			over && link(`#/auto-align/${alignment_id}`, t("nav.auto-align")),
			status.report != null &&
				actButton(view, t("alignment.report"), () => download("alignments_report", { params }, `${alignment_id}.html`)),
			canStop &&
				dangerButton(view, t("action.stop"), t("alignment.stop", { name }), t("alignment.stop.text"), () =>
					call("alignments_stop", { params }).then(view.reload),
				),
			(over || isBefore) && deleteButton(view, "alignments_delete", name, t(over ? "alignment.delete.text" : "alignment.cancel.text")),
		],
	});
}

/** @param {Status} status @param {RunLog} log */
function stateOf(status, log) {
	const over = isOver(status);
	const isComplete = status.status === "COMPLETED";
	const at = isComplete ? phases.length : phases.indexOf(over ? (status.last_phase ?? "packaging") : status.phase);
	const seen = new Map(log.phases.map(({ phase, at: since }) => [phase, since]));
	const steps = phases
		// Repairing is shown once the run reaches it, because a run that lost nothing has nothing to repair.
		.filter((phase) => phase !== "repairing" || status.phase === "repairing" || seen.has("repairing"))
		.map((phase) => {
			const index = phases.indexOf(phase);
			const isDone = index < at;
			// Checks also run between the steps of training, so a phase gets a time only once the run has come that far.
			const since = index <= at ? seen.get(phase) : undefined;
			return h(
				"li",
				{
					class: isDone ? "done" : index === at && !over ? "now" : "",
					"aria-current": index === at && !over && "step",
				},
				word("phase", phase),
				since && h("br"),
				since && h("span.small", timeOf(since)),
			);
		});
	return section(
		t("alignment.state"),
		h("ol.timeline", steps),
		!over && progress(t("alignment.state"), status.progress_detail ?? log.progress, status.progress),
		!over && status.estimated_completion != null && smallPrint(t("alignment.until", { when: when(status.estimated_completion) })),
		status.waiting_for != null && notice("warn", t("state.waits", { what: status.waiting_for })),
		status.error != null && notice("bad", failedWords(log.notes.findLast(({ kind }) => kind === "failed")?.code, status.error)),
	);
}

/** @param {Status} status */
function resultOf({ verdict, performance_metrics }) {
	if (!verdict) return null;
	return section(
		t("alignment.result"),
		h("p", badge(verdict.outcome, word("outcome", verdict.outcome)), " ", h("strong", headlineOf(verdict))),
		list(whyOf(verdict)),
		verdict.fell.length > 0 && [h("h3", t("alignment.fell")), fellOf(verdict.fell)],
		verdict.help.length > 0 && [h("h3", t("alignment.help")), list(verdict.help, "ol")],
		performance_metrics &&
			details(
				t("alignment.metrics"),
				facts(
					Object.entries(performance_metrics).map(([name, value]) => [word("metric", name, name.replaceAll("_", " ")), number(value, 3)]),
				),
			),
	);
}

/** @typedef {NonNullable<Status["verdict"]>} Verdict */

/** @param {Verdict} verdict */
const headlineOf = ({ outcome, headline, fell }) =>
	said(`verdict.${outcome}`, headline, { fell: fellWords(fell.flatMap((one) => (one.beyond_chance ? one.name : []))) });

/** Translates the reasons: the first is about the dev questions, each further one about a regression. @param {Verdict} verdict */
function whyOf({ why, dev, fell }) {
	if (dev === undefined || why.length !== fell.length + 1) return why;
	const [first = "", ...others] = why;
	const asked =
		dev === null ? said("dev.none", first) : said("dev", first, { ...dev, base: points(dev.base), aligned: points(dev.aligned) });
	const lost = others.map((text, at) => {
		const { name = "", base, aligned, beyond_chance } = fell[at] ?? {};
		return said(beyond_chance ? "fell.one" : "fell.chance", text, { name, base: figureOf(name, base), aligned: figureOf(name, aligned) });
	});
	return [asked, ...lost];
}

/** A divergence in nats per token is far below 1. @param {string} name @param {number | undefined} value */
const figureOf = (name, value) => (name === "kl" ? number(value, 3) : points(value));

/** @param {Verdict["fell"]} fell */
const fellOf = (fell) =>
	table(
		t("alignment.fell"),
		[
			[t("field.suite"), (one) => one.name],
			[t("field.base"), (one) => figureOf(one.name, one.base), "numeric"],
			[t("field.aligned"), (one) => figureOf(one.name, one.aligned), "numeric"],
			[t("field.beyond"), (one) => yesNo(one.beyond_chance)],
		],
		fell,
	);

/** Shows how much of each document became training rows, the least covered first. @param {View} view @param {string} id */
async function learnedOf(view, id) {
	// The API answers 404 before the rows are made.
	const coverage = await orNull(call("alignments_coverage", { params: id }), 404);
	if (coverage === null) return null;
	const rows = coverage.documents.map(({ document_id, name, passages }) => {
		const learned = passages.filter((one) => one.rows > 0).length;
		const trained = passages.reduce((sum, one) => sum + one.rows, 0);
		return { document_id, name, all: passages.length, learned, trained, share: passages.length > 0 ? learned / passages.length : 0 };
	});
	rows.sort((a, b) => a.share - b.share);
	const none = rows.filter(({ learned }) => learned === 0).length;
	const { element } = await pagedTable(
		view,
		t("alignment.learned"),
		[
			[t("field.document"), (one) => (may("documents_get") ? link(`#/documents/${one.document_id}?alignment=${id}`, one.name) : one.name)],
			[t("estimate.passages"), (one) => one.all],
			[t("coverage.share"), (one) => (one.learned > 0 ? percent(one.share) : badge("STOPPED", t("coverage.nothing"))), "numeric"],
			[t("estimate.rows"), (one) => one.trained],
		],
		inHand(rows),
		{ name: "documents" },
	);
	return section(
		t("alignment.learned"),
		h("p", t("alignment.covered", { learned: coverage.covered, all: coverage.content })),
		none > 0 && notice("warn", t("alignment.nothing", { n: none })),
		element,
	);
}

/** @param {RunLog} log @param {AbortSignal} signal */
function chartsOf(log, signal) {
	const loss = lineChart(
		t("alignment.loss"),
		{
			x: t("field.step"),
			y: t("alignment.loss"),
			lines: [
				{ label: t("alignment.loss"), color: "muted" },
				{ label: t("alignment.trend"), color: "accent" },
			],
		},
		signal,
	);
	const score = scoreChart(t("alignment.dev"), { x: t("field.step"), label: t("field.score") }, signal);
	const element = h("div.columns", section(t("alignment.loss"), loss.element), section(t("alignment.dev"), score.element));
	return {
		element,
		draw() {
			const steps = Object.keys(log.losses).map(Number);
			const losses = Object.values(log.losses);
			const checks = Object.values(log.checks);
			element.hidden = steps.length === 0 && checks.length === 0;
			const last = losses.at(-1);
			const speed = log.tokensPerSecond === null ? "" : t("alignment.speed", { rate: number(log.tokensPerSecond) });
			loss.show(
				[steps, losses, smoothed(losses)],
				last === undefined ? "" : `${t("alignment.lossnow", { step: number(steps.at(-1) ?? 0), loss: number(last, 3) })} ${speed}`,
			);
			const latest = checks.at(-1);
			const words = latest ? t("alignment.devnow", { score: interval(latest), n: number(latest.n), step: number(latest.step) }) : "";
			score.show(
				checks.map(({ step }) => step),
				checks,
				words,
			);
		},
	};
}

/** Returns the text of a failure's code, followed by the appliance's message. @param {string | undefined} code @param {string} message */
function failedWords(code, message) {
	const text = said(`failure.${code}`, message);
	return text === message ? message : `${text}: ${message}`;
}

/** @param {RunLog["notes"][number]} note */
const noteOf = ({ at, kind, phase, message, code, parameters }) => [
	badge(kind === "warning" ? "STOPPED" : kind === "failed" ? "FAILED" : kind, word("event", kind)),
	` ${kind === "failed" ? failedWords(code, message) : said(`warning.${code}`, message, parameters)} `,
	h("span.small", `${word("phase", phase)} · ${when(at, "medium")}`),
];

/** @param {Status} one */
async function settingsOf(one) {
	const took =
		one.started_date && one.completed_date ? duration((Date.parse(one.completed_date) - Date.parse(one.started_date)) / 1000) : "–";
	const [base, benchmark] = await Promise.all([linkTo(one.base_model), linkTo(one.benchmark_id)]);
	return section(
		t("alignment.settings"),
		facts([
			[t("field.base"), base],
			[t("align.preset"), word("preset", one.workflow_id ?? "")],
			[t("field.documents"), one.document_ids.length],
			[t("field.benchmark"), benchmark],
			[t("field.created"), when(one.created_date)],
			[t("alignment.took"), took],
			[t("alignment.threads"), one.budget?.threads],
			[t("field.description"), one.description],
			[t("field.id"), h("code", one.alignment_id)],
		]),
	);
}
