// Auto-align: a target and a budget, why each phase was chosen, and the score against the hours it took.
import { call, callAll, events, onceKey } from "../api/client.js";
import { lineChart } from "../parts/chart.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { actButton, every, facts, head, link, section } from "../parts/page.js";
import { detailText } from "../parts/progress.js";
import { badge, empty, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { interval, number, percent, points, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { benchmarkOptions } from "./choices.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["alignments_auto_align_record"]} AutoAlign */
/** @typedef {AutoAlign["cards"][number]} Card */

const open = ["RECORDED", "PLANNING", "RUNNING"];

/** @param {View} view */
export async function show(view) {
	const wanted = view.query.get("run");
	if (view.id !== null && wanted !== null) return showOne(view, view.id, wanted);
	const { signal, place } = view;
	const projects = (await callAll("alignments_list", (reply) => reply.alignment_projects, { signal })).filter(
		({ status }) => status === "COMPLETED",
	);
	const top = head(t("auto.title"), { lead: t("auto.lead") });
	if (projects.length === 0) {
		fill(place, top, empty(t("auto.none"), t("auto.none.hint"), link("#/alignments/new", t("alignments.new"))));
		return;
	}
	const id = view.id ?? /** @type {{ id: string }} */ (projects[0]).id;
	const status = await call("alignments_status", { params: { alignment_id: id }, signal });
	const choose = h(
		"select",
		{ onchange: () => go(`#/auto-align/${choose.value}`) },
		projects.map((one) => h("option", { value: one.id, selected: one.id === id }, one.name)),
	);
	fill(
		place,
		top,
		h("div", { class: "filters" }, h("label", {}, t("field.alignment"), choose)),
		requestsOf(status),
		section(t("auto.new"), await newForm(view, id, status.benchmark_id ?? null)),
	);
}

/** @param {Replies["alignments_status"]} status */
function requestsOf({ alignment_id, auto_align }) {
	const rows = auto_align ?? [];
	if (rows.length === 0) return null;
	return section(
		t("auto.requests"),
		table(
			t("auto.requests"),
			[
				{
					head: t("field.created"),
					cell: (one) => link(`#/auto-align/${alignment_id}?run=${one.auto_align_id}`, when(one.created_date)),
				},
				{ head: t("field.status"), cell: (one) => badge(one.status, word("status", one.status)) },
				{ head: t("auto.target"), cell: (one) => points(one.target_score), numeric: true },
				{ head: t("auto.dev"), cell: (one) => interval(one.dev), numeric: true },
				{ head: t("auto.phases"), cell: (one) => number(one.phases), numeric: true },
				{ head: t("auto.hours"), cell: (one) => number(one.hours, 2), numeric: true },
			],
			rows,
		),
	);
}

/** @param {View} view @param {string} id @param {string | null} benchmarkId */
async function newForm({ signal }, id, benchmarkId) {
	const benchmarks = await benchmarkOptions(signal);
	const key = onceKey();
	return form(
		[
			{
				name: "target_score",
				label: t("auto.target"),
				type: "number",
				required: true,
				value: 80,
				hint: t("auto.target.hint"),
				more: { min: 0, max: 99, step: "any" },
			},
			{
				name: "max_compute_hours",
				label: t("auto.budget"),
				type: "number",
				value: 2,
				hint: t("auto.budget.hint"),
				more: { min: 0, step: "any" },
			},
			{ name: "benchmark_id", label: t("field.benchmark"), type: "select", options: benchmarks, value: benchmarkId },
			{ name: "notify_on_phase_transition", label: t("auto.notify"), type: "checkbox", value: true },
		],
		{
			submit: t("auto.start"),
			async onSubmit(body) {
				const { auto_align_id } = await call("alignments_auto_align", {
					params: { alignment_id: id },
					body,
					signal,
					onceKey: key,
				});
				go(`#/auto-align/${id}?run=${auto_align_id}`);
			},
		},
	);
}

/** @param {View} view @param {string} id @param {string} autoAlignId */
async function showOne(view, id, autoAlignId) {
	const { signal, place } = view;
	const params = { alignment_id: id, auto_align_id: autoAlignId };
	const top = h("div", {});
	const now = h("p", { class: "small", "aria-live": "polite" });
	const cards = h("div", {});
	const chart = lineChart(
		t("auto.chart"),
		{
			x: t("auto.hours"),
			range: [0, 100],
			band: [3, 2],
			lines: [
				{ label: t("auto.dev"), color: "accent", dots: true },
				{ label: t("field.low"), color: "muted", hidden: true },
				{ label: t("field.high"), color: "muted", hidden: true },
				{ label: t("auto.target"), color: "second", dashed: true },
			],
		},
		signal,
	);
	fill(place, top, section(t("auto.chart"), chart.element, now), cards);
	let drawn = "";
	const draw = async () => {
		const record = await call("alignments_auto_align_record", { params, signal });
		fill(top, topOf(view, record));
		// Open details would close if nothing new were drawn anew.
		const what = JSON.stringify(record.cards);
		if (what !== drawn)
			fill(
				cards,
				section(
					t("auto.cards"),
					record.cards.length > 0 ? [...record.cards].reverse().map(cardOf) : h("p", { class: "soft" }, t("auto.nocards")),
				),
			);
		drawn = what;
		const all = record.cards;
		chart.show(
			[
				all.map((one) => one.hours.spent),
				all.map((one) => one.best.dev.score),
				all.map((one) => one.best.dev.low),
				all.map((one) => one.best.dev.high),
				all.map(() => record.target_score),
			],
			record.dev
				? t("auto.chart.words", {
						score: interval(record.dev),
						hours: number(record.hours.spent, 2),
						target: points(record.target_score),
					})
				: "",
		);
		return open.includes(record.status);
	};
	if (!(await draw())) return;
	void every(signal, 4_000, draw);
	void followEvents(params, signal, now);
}

/** Tells what the run does now; the record says the rest. @param {Record<string, string>} params @param {AbortSignal} signal @param {HTMLElement} now */
async function followEvents(params, signal, now) {
	const name = `auto.${params.auto_align_id}`;
	let last = sessionStorage.getItem(name) ?? "";
	try {
		for await (const { id, data } of events("alignments_auto_align_events", { params, signal }, last)) {
			last = id;
			sessionStorage.setItem(name, last);
			const event = JSON.parse(data);
			if (typeof event.done === "number") now.textContent = detailText({ total: null, unit: "", rate: null, seconds_left: null, ...event });
		}
	} catch (error) {
		if (!signal.aborted) throw error;
	}
}

/** @param {View} view @param {AutoAlign} record */
function topOf(view, record) {
	const {
		alignment_id,
		auto_align_id,
		status,
		phase,
		phases,
		dev,
		hours,
		target_score,
		max_compute_hours,
		model_id,
		evaluation_id,
		help,
		error,
		looks,
		stopping,
		confirmed,
		created_date,
		ended_date,
	} = record;
	const params = { alignment_id, auto_align_id };
	const act = (/** @type {"alignments_auto_align_stop" | "alignments_auto_align_resume"} */ name) => async () => {
		await call(name, { params });
		await view.reload();
	};
	const goesOn = open.includes(status) || status === "PAUSED";
	return [
		head(t("auto.one"), {
			back: { href: `#/auto-align/${alignment_id}`, text: t("nav.auto-align") },
			actions: [
				badge(status, word("status", status)),
				model_id !== null && link(`#/models/${model_id}`, t("alignment.model")),
				evaluation_id !== null && link(`#/evaluations/${evaluation_id}`, t("alignment.evaluation")),
				status === "PAUSED" && actButton(t("auto.resume"), act("alignments_auto_align_resume"), { onError: view.fail }),
				goesOn && !stopping && actButton(t("action.stop"), act("alignments_auto_align_stop"), { kind: "danger", onError: view.fail }),
			],
		}),
		error && notice("bad", h("p", {}, error.message), h("p", {}, error.hint)),
		stopping && goesOn && notice("warn", h("p", {}, t("auto.stopping"))),
		section(
			t("auto.state"),
			facts([
				[t("auto.target"), points(target_score)],
				[t("auto.dev"), interval(dev)],
				[t("auto.hours"), `${number(hours.spent, 2)}${max_compute_hours === null ? "" : ` / ${number(max_compute_hours, 2)}`}`],
				[t("auto.phases"), `${number(phases)}${phase === null ? "" : ` · ${phase}`}`],
				[t("auto.confirmed"), confirmed === null ? "–" : confirmed ? t("yes") : t("no")],
				[t("auto.looks"), looks.map((one) => `${points(one.score)} (≥ ${points(one.low)}, n ${number(one.n)})`).join(", ") || "–"],
				[t("field.created"), when(created_date)],
				[t("field.completed"), when(ended_date)],
			]),
		),
		help.length > 0 &&
			section(
				t("alignment.help"),
				h(
					"ol",
					{},
					help.map((one) => h("li", {}, one)),
				),
			),
	];
}

/** @param {Card} card */
function cardOf({ step, because, would_change, bids, excluded, best, hours, result, regressions, next }) {
	return h(
		"details",
		{ class: "card" },
		h("summary", {}, `${step + 1}. ${word("next", next.kind)}${next.phase ? `: ${next.phase.arm}` : ""}`),
		h("p", {}, because),
		h("p", { class: "small" }, would_change),
		facts([
			[t("auto.dev"), interval(best.dev)],
			[t("auto.chance"), percent(best.chance_of_target)],
			[t("auto.hours"), number(hours.spent, 2)],
		]),
		result &&
			h(
				"p",
				{},
				t("auto.result", {
					arm: result.arm,
					difference: points(result.difference),
					low: points(result.low),
					high: points(result.high),
				}),
			),
		regressions.length > 0 &&
			h(
				"ul",
				{},
				regressions.map((one) => h("li", {}, `${one.suite}: ${points(one.points)} (${one.cause})`)),
			),
		bids.length > 0 && [
			h("h3", {}, t("auto.bids")),
			table(
				t("auto.bids"),
				[
					{ head: t("auto.arm"), cell: (one) => one.arm },
					{ head: t("auto.gain"), cell: (one) => `${points(one.gain)} ± ${points(one.sd)}`, numeric: true },
					{ head: t("auto.hours"), cell: (one) => number(one.hours, 2), numeric: true },
					{ head: t("auto.risk"), cell: (one) => percent(one.risk), numeric: true },
					{ head: t("auto.bid"), cell: (one) => (one.bid === null ? "–" : points(one.bid)), numeric: true },
				],
				bids,
			),
		],
		excluded.length > 0 && [
			h("h3", {}, t("auto.excluded")),
			h(
				"ul",
				{},
				excluded.map((one) => h("li", {}, `${one.arm}: ${one.reason}`)),
			),
		],
	);
}
