// One alignment: where it stands, its loss and dev score as they happen, and what came of it.
import { call, download, events } from "../api/client.js";
import { lineChart } from "../parts/chart.js";
import { confirmAct } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { actButton, every, facts, head, link, section } from "../parts/page.js";
import { progress } from "../parts/progress.js";
import { addEvent, keepLog, restoreLog, smoothed } from "../parts/run-log.js";
import { badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { duration, interval, number, points, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { RunLog } from "../parts/run-log.js" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["alignments_status"]} Status */

const phases = ["queued", "preparing", "training", "checking", "repairing", "packaging"];

/** @param {Status} status */
const isOver = ({ status }) => !["PROCESSING", "STOPPING"].includes(status);

/** @param {View} view @param {string} id */
export async function showAlignment(view, id) {
	const { signal, place } = view;
	const ask = () => call("alignments_status", { params: { alignment_id: id }, signal });
	let status = await ask();
	const log = restoreLog(id);
	const top = h("div", {});
	const state = h("div", {});
	const result = h("div", {});
	const notes = h("ul", { class: "list" });
	const charts = chartsOf(log, signal);
	const notesCard = h("div", {}, section(t("alignment.notes"), notes));
	fill(place, top, state, result, charts.element, notesCard, settingsOf(status));

	const draw = () => {
		fill(top, headOf(view, status));
		fill(state, stateOf(status, log));
		fill(notes, log.notes.map(noteOf).reverse());
		notesCard.hidden = log.notes.length === 0;
		charts.draw();
	};
	draw();
	fill(result, resultOf(status));
	void every(signal, 2_500, async () => {
		if (isOver(status)) return false;
		status = await ask();
		draw();
		if (isOver(status)) fill(result, resultOf(status));
		return !isOver(status);
	});
	follow(id, log, signal, draw).catch(view.fail);
}

/** Adds the run's events to the log as they happen, and draws a few times a second. @param {string} id @param {RunLog} log @param {AbortSignal} signal @param {() => void} draw */
async function follow(id, log, signal, draw) {
	let isDue = false;
	const keep = () => keepLog(id, log);
	addEventListener("pagehide", keep, { signal });
	signal.addEventListener("abort", keep);
	try {
		for await (const { data } of events("alignments_events", { params: { alignment_id: id }, signal }, log.lastId)) {
			addEvent(log, JSON.parse(data));
			if (isDue) continue;
			isDue = true;
			setTimeout(() => {
				isDue = false;
				if (!signal.aborted) draw();
			}, 300);
		}
	} catch (error) {
		if (!signal.aborted) throw error;
	}
}

/** @param {View} view @param {Status} status */
function headOf(view, status) {
	const { alignment_id, name, model_id, evaluation_id } = status;
	const params = { alignment_id };
	const over = isOver(status);
	const options = { onError: view.fail };
	const canStop = status.status === "PROCESSING" && status.phase !== "queued";
	const canDelete = over || ["queued", "preparing"].includes(status.phase);
	return head(name, {
		back: { href: "#/alignments", text: t("nav.alignments") },
		actions: [
			badge(status.status, word("status", status.status)),
			model_id && link(`#/models/${model_id}`, t("alignment.model")),
			evaluation_id && link(`#/evaluations/${evaluation_id}`, t("alignment.evaluation")),
			over && link(`#/auto-align/${alignment_id}`, t("nav.auto-align")),
			status.report != null &&
				actButton(t("alignment.report"), () => download("alignments_report", { params }, `${alignment_id}.html`), options),
			canStop &&
				actButton(
					t("action.stop"),
					async () => {
						if (!(await confirmAct(t("alignment.stop", { name }), t("alignment.stop.text"), t("action.stop")))) return;
						await call("alignments_stop", { params });
						await view.reload();
					},
					{ ...options, kind: "danger" },
				),
			canDelete &&
				actButton(
					over ? t("action.delete") : t("action.cancel"),
					async () => {
						if (!(await confirmAct(t("alignment.delete", { name }), t("alignment.delete.text"), t("action.delete")))) return;
						await call("alignments_delete", { params });
						go("#/alignments");
					},
					{ ...options, kind: "danger" },
				),
		],
	});
}

/** @param {Status} status @param {RunLog} log */
function stateOf(status, log) {
	const over = isOver(status);
	const at = phases.indexOf(over ? (status.last_phase ?? "packaging") : status.phase);
	const seen = new Map(log.phases.map(({ phase, at: since }) => [phase, since]));
	const steps = phases
		// A run that lost nothing has nothing to repair.
		.filter((phase) => phase !== "repairing" || status.phase === "repairing" || seen.has("repairing"))
		.map((phase) => {
			const index = phases.indexOf(phase);
			const isDone = index < at || (status.status === "COMPLETED" && index === at);
			const since = seen.get(phase);
			return h(
				"li",
				{
					class: isDone ? "done" : index === at && !over ? "now" : "",
					"aria-current": index === at && !over && "step",
				},
				word("phase", phase),
				since && h("br"),
				since && h("span", { class: "small" }, new Date(since).toLocaleTimeString()),
			);
		});
	return section(
		t("alignment.state"),
		h("ol", { class: "timeline" }, steps),
		!over && progress(t("alignment.state"), status.progress_detail ?? log.progress, status.progress),
		!over &&
			status.estimated_completion != null &&
			h("p", { class: "small" }, t("alignment.until", { when: when(status.estimated_completion) })),
		status.waiting_for != null && notice("warn", h("p", {}, t("state.waits", { what: status.waiting_for }))),
		status.error != null && notice("bad", h("p", {}, status.error)),
	);
}

/** @param {Status} status */
function resultOf({ verdict, performance_metrics }) {
	if (!verdict) return null;
	return section(
		t("alignment.result"),
		h("p", {}, badge(verdict.outcome, word("outcome", verdict.outcome)), " ", h("strong", {}, verdict.headline)),
		h(
			"ul",
			{},
			verdict.why.map((one) => h("li", {}, one)),
		),
		verdict.fell.length > 0 && [h("h3", {}, t("alignment.fell")), fellOf(verdict.fell)],
		verdict.help.length > 0 && [
			h("h3", {}, t("alignment.help")),
			h(
				"ol",
				{},
				verdict.help.map((one) => h("li", {}, one)),
			),
		],
		performance_metrics &&
			h(
				"details",
				{},
				h("summary", {}, t("alignment.metrics")),
				facts(Object.entries(performance_metrics).map(([name, value]) => [name, value === null ? "–" : number(value, 3)])),
			),
	);
}

/** @param {NonNullable<Status["verdict"]>["fell"]} fell */
const fellOf = (fell) =>
	table(
		t("alignment.fell"),
		[
			{ head: t("field.suite"), cell: (one) => one.name },
			{ head: t("field.base"), cell: (one) => points(one.base), numeric: true },
			{ head: t("field.aligned"), cell: (one) => points(one.aligned), numeric: true },
			{ head: t("field.beyond"), cell: (one) => (one.beyond_chance ? t("yes") : t("no")) },
		],
		fell,
	);

/** @param {RunLog} log @param {AbortSignal} signal */
function chartsOf(log, signal) {
	const loss = lineChart(
		t("alignment.loss"),
		{
			x: t("field.step"),
			lines: [
				{ label: t("alignment.loss"), color: "muted" },
				{ label: t("alignment.trend"), color: "accent" },
			],
		},
		signal,
	);
	const score = lineChart(
		t("alignment.dev"),
		{
			x: t("field.step"),
			range: [0, 100],
			band: [3, 2],
			lines: [
				{ label: t("field.score"), color: "accent", dots: true },
				{ label: t("field.low"), color: "muted", hidden: true },
				{ label: t("field.high"), color: "muted", hidden: true },
			],
		},
		signal,
	);
	const element = h("div", { class: "columns" }, section(t("alignment.loss"), loss.element), section(t("alignment.dev"), score.element));
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
				[checks.map(({ step }) => step), checks.map((one) => one.score), checks.map(({ low }) => low), checks.map(({ high }) => high)],
				words,
			);
		},
	};
}

/** @param {RunLog["notes"][number]} note */
const noteOf = ({ at, kind, phase, message }) =>
	h(
		"li",
		{},
		badge(kind === "warning" ? "STOPPED" : kind === "failed" ? "FAILED" : kind, word("event", kind)),
		` ${message} `,
		h("span", { class: "small" }, `${word("phase", phase)} · ${when(at)}`),
	);

/** @param {Status} status */
function settingsOf({
	alignment_id,
	base_model,
	workflow_id,
	document_ids,
	benchmark_id,
	created_date,
	started_date,
	completed_date,
	budget,
	description,
}) {
	const took = started_date && completed_date ? duration((Date.parse(completed_date) - Date.parse(started_date)) / 1000) : "–";
	return section(
		t("alignment.settings"),
		facts([
			[t("field.id"), h("code", {}, alignment_id)],
			[t("field.base"), base_model],
			[t("align.preset"), word("preset", workflow_id ?? "")],
			[t("field.documents"), number(document_ids.length)],
			[t("field.benchmark"), benchmark_id ? link(`#/benchmarks/${benchmark_id}`, t("action.open")) : "–"],
			[t("field.created"), when(created_date)],
			[t("alignment.took"), took],
			[t("alignment.threads"), budget ? number(budget.threads) : "–"],
			[t("field.description"), description || "–"],
		]),
		document_ids.length > 0 &&
			h(
				"details",
				{},
				h("summary", {}, t("document.coverage")),
				h(
					"ul",
					{},
					document_ids.slice(0, 200).map((id) => h("li", {}, link(`#/documents/${id}?alignment=${alignment_id}`, h("code", {}, id)))),
				),
			),
	);
}
