// Auto-align: a target and a budget, why each phase was chosen, and the score against the hours it took.
import { call, callAll, events, onceKey } from "../api/client.js";
import {
	actButton,
	details,
	detailText,
	empty,
	entries,
	every,
	facts,
	fill,
	form,
	h,
	head,
	inHand,
	interval,
	link,
	list,
	mainLink,
	notice,
	number,
	pagedTable,
	percent,
	points,
	range,
	said,
	scoreChart,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	when,
	word,
	yesNo,
} from "../ui.js";
import { benchmarkOptions, nameOf } from "./choices.js";

/** @typedef {Replies["alignments_auto_align_record"]} AutoAlign */
/** @typedef {AutoAlign["cards"][number]} Card */

const open = ["RECORDED", "PLANNING", "RUNNING"];

/** @param {View} view */
export async function show(view) {
	const wanted = view.query.get("run");
	if (view.id !== null && wanted !== null) return showOne(view, view.id, wanted);
	const { place } = view;
	const query = { status: "COMPLETED" };
	const projects = await callAll("alignments_list", (reply) => reply.alignment_projects, { query });
	const top = head(t("nav.auto-align"), { lead: t("auto.lead") });
	const id = view.id ?? projects[0]?.id;
	if (!id) return fill(place, top, empty(t("auto.none"), t("auto.none.hint"), mainLink("#/alignments/new", t("alignments.new"))));
	const status = await call("alignments_status", { params: id });
	// The address may name an alignment that is not completed.
	const all = projects.some((one) => one.id === id) ? projects : [{ id, name: status.name }, ...projects];
	const choose = h(
		"select",
		{ onchange: () => view.go(`#/auto-align/${choose.value}`) },
		all.map((one) => h("option", { value: one.id, selected: one.id === id }, one.name)),
	);
	fill(
		place,
		top,
		h("div.filters", h("label", t("field.alignment"), choose)),
		await requestsOf(view, status),
		section(t("auto.new"), await newForm(view, id, status.benchmark_id ?? null)),
	);
}

/** @param {View} view @param {Replies["alignments_status"]} status */
async function requestsOf(view, { alignment_id, auto_align = [] }) {
	if (auto_align.length === 0) return null;
	const { element } = await pagedTable(
		view,
		t("auto.requests"),
		[
			[t("field.created"), (one) => link(`#/auto-align/${alignment_id}?run=${one.auto_align_id}`, when(one.created_date)), "when"],
			[t("field.status"), (one) => statusBadge(one.status)],
			[t("auto.target"), (one) => points(one.target_score), "numeric"],
			[t("auto.dev"), (one) => interval(one.dev), "numeric"],
			[t("auto.phases"), (one) => one.phases],
			[t("auto.hours"), (one) => number(one.hours, 2), "numeric"],
		],
		inHand(auto_align),
	);
	return section(t("auto.requests"), element, smallPrint(t("field.scale")));
}

/** @param {View} view @param {string} id @param {string | null} benchmarkId */
async function newForm(view, id, benchmarkId) {
	const benchmarks = await benchmarkOptions();
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
			{ name: "benchmark_id", label: t("field.benchmark"), options: benchmarks, value: benchmarkId },
			{ name: "notify_on_phase_transition", label: t("auto.notify"), type: "checkbox", value: true },
		],
		{
			submit: t("auto.start"),
			async onSubmit(body) {
				const { auto_align_id } = await call("alignments_auto_align", {
					params: id,
					body,
					onceKey: key,
				});
				view.go(`#/auto-align/${id}?run=${auto_align_id}`);
			},
		},
	);
}

/** @param {View} view @param {string} id @param {string} autoAlignId */
async function showOne(view, id, autoAlignId) {
	const { signal, place } = view;
	const params = { alignment_id: id, auto_align_id: autoAlignId };
	const top = h("div");
	const now = h("p.small", { "aria-live": "polite" });
	const name = (await nameOf(id)) ?? id;
	const cards = h("div");
	const target = /** @type {const} */ ({ label: t("auto.target"), color: "second", dashed: true });
	const chart = scoreChart(t("auto.chart"), { x: t("auto.hours"), label: t("auto.dev"), others: [target] }, signal);
	fill(place, top, section(t("auto.chart"), chart.element, now), cards);
	let drawn = "";
	const draw = async () => {
		const record = await call("alignments_auto_align_record", { params });
		fill(top, topOf(view, record, name));
		// The cards are redrawn only if they have changed, because redrawing closes open details.
		const what = JSON.stringify(record.cards);
		if (what !== drawn)
			fill(
				cards,
				section(
					t("auto.cards"),
					record.cards.length > 0 ? [...record.cards].reverse().map((card) => cardOf(card, record)) : h("p.soft", t("auto.nocards")),
				),
			);
		drawn = what;
		const all = record.cards;
		chart.show(
			all.map((one) => one.hours.spent),
			all.map((one) => one.best.dev),
			record.dev
				? t("auto.chart.words", {
						score: interval(record.dev),
						hours: number(record.hours.spent, 2),
						target: points(record.target_score),
					})
				: "",
			all.map(() => record.target_score),
		);
		return open.includes(record.status);
	};
	if (!(await draw())) return;
	void every(signal, 4_000, draw);
	followEvents(params, signal, now).catch(view.fail);
}

/**
 * Shows what the run is doing now. Everything else comes from the record.
 * @param {Record<string, string>} params @param {AbortSignal} signal @param {HTMLElement} now
 */
async function followEvents(params, signal, now) {
	const name = `auto.${params.auto_align_id}`;
	const last = sessionStorage.getItem(name) ?? "";
	for await (const { id, data } of events("alignments_auto_align_events", { params, signal }, last)) {
		sessionStorage.setItem(name, id);
		const event = JSON.parse(data);
		if (typeof event.done === "number") now.textContent = detailText({ total: null, unit: "", rate: null, seconds_left: null, ...event });
	}
}

/** @param {View} view @param {AutoAlign} record @param {string} name of the alignment */
function topOf(view, record, name) {
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
	const act = (/** @type {"alignments_auto_align_stop" | "alignments_auto_align_resume"} */ name) => () =>
		call(name, { params }).then(view.reload);
	const goesOn = open.includes(status) || status === "PAUSED";
	return [
		head(t("auto.of", { name }), {
			back: "auto-align",
			actions: [
				statusBadge(status),
				link(`#/alignments/${alignment_id}`, name),
				model_id !== null && link(`#/models/${model_id}`, t("alignment.model")),
				evaluation_id !== null && link(`#/evaluations/${evaluation_id}`, t("alignment.evaluation")),
				status === "PAUSED" && actButton(view, t("auto.resume"), act("alignments_auto_align_resume")),
				goesOn && !stopping && actButton(view, t("action.stop"), act("alignments_auto_align_stop"), { kind: "danger" }),
			],
		}),
		error !== null && notice("bad", said(`failure.${error.code}`, error.message), said(`hint.${error.code}`, error.hint)),
		stopping && goesOn && notice("warn", t("auto.stopping")),
		section(
			t("alignment.state"),
			facts([
				[t("auto.target"), points(target_score)],
				[t("auto.dev"), interval(dev)],
				[t("auto.hours"), spentOf(hours.spent, max_compute_hours)],
				[t("auto.phases"), `${number(phases)}${phase === null ? "" : ` · ${word("arm", phase, word("phase", phase))}`}`],
				[t("auto.confirmed"), confirmed === null ? "–" : yesNo(confirmed)],
				[
					t("auto.looks"),
					looks.length > 0 && entries(looks.map(({ score, low, n }) => t("auto.look", { score: points(score), low: points(low), n }))),
				],
				[t("field.created"), when(created_date)],
				[t("field.completed"), when(ended_date)],
			]),
			smallPrint(t("field.scale")),
		),
		help.length > 0 && section(t("alignment.help"), list(help, "ol")),
	];
}

/** @param {number} hours @param {number | null} most */
const spentOf = (hours, most) => (most === null ? number(hours, 2) : t("auto.spent", { hours: number(hours, 2), most: number(most, 2) }));

const armOf = (/** @type {string} */ arm) => word("arm", arm);

/** Returns the figures that a card's sentences can contain. @param {Card} card @param {AutoAlign} record */
function figuresOf({ bids, looks, hours, best, next }, { target_score, max_compute_hours }) {
	const own = bids.find(({ arm }) => arm === next.phase?.arm);
	const other = bids.find((one) => one !== own);
	const last = looks.at(-1);
	return {
		arm: armOf(next.phase?.arm ?? ""),
		gain: points(own?.gain),
		hours: number(own?.hours, 2),
		bid: points(own?.bid),
		other: armOf(other?.arm ?? ""),
		second: points(other?.bid),
		least: points(((own?.gain ?? 0) * Math.max(0, other?.bid ?? 0)) / (own?.bid || 1)),
		n: last?.n,
		score: points(last?.score),
		low: points(last?.low),
		smallest: points(last?.smallest_visible),
		looks: looks.length,
		target: points(target_score),
		chance: percent(best.chance_of_target),
		spent: number(hours.spent, 2),
		most: number(max_compute_hours, 2),
	};
}

/** @param {Card} card @param {AutoAlign} record */
function cardOf(card, record) {
	const { step, code, because, would_change, bids, excluded, best, hours, result, regressions, next } = card;
	const figures = figuresOf(card, record);
	return details(
		`${step + 1}. ${word("next", next.kind)}${next.phase ? `: ${armOf(next.phase.arm)}` : ""}`,
		h("p", said(`card.${code}`, because, figures)),
		smallPrint(`${t("auto.change")}: ${said(`change.${code}`, would_change, figures)}`),
		facts([
			[t("auto.dev"), interval(best.dev)],
			[t("auto.chance"), percent(best.chance_of_target)],
			[t("auto.hours"), number(hours.spent, 2)],
		]),
		result &&
			h(
				"p",
				t("auto.result", {
					arm: armOf(result.arm),
					difference: points(result.difference),
					range: range(result.low, result.high),
				}),
			),
		regressions.length > 0 && [
			h("h3", t("auto.regressions")),
			list(regressions.map((one) => t("auto.regression", { suite: one.suite, points: points(one.points), cause: armOf(one.cause) }))),
		],
		bids.length > 0 && [
			h("h3", t("auto.bids")),
			table(
				t("auto.bids"),
				[
					[t("auto.arm"), (one) => armOf(one.arm)],
					[t("auto.gain"), (one) => `${points(one.gain)} ± ${points(one.sd)}`, "numeric"],
					[t("auto.hours"), (one) => number(one.hours, 2), "numeric"],
					[t("auto.risk"), (one) => percent(one.risk), "numeric"],
					[t("auto.bid"), (one) => points(one.bid), "numeric"],
				],
				bids,
			),
		],
		excluded.length > 0 && [h("h3", t("auto.excluded")), list(excluded.map((one) => `${armOf(one.arm)}: ${one.reason}`))],
	);
}
