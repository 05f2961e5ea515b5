// How far a model's confidence scores can be trusted: the reliability diagram, and which answers a threshold would accept.
import { facts, fill, h, lineChart, newId, notice, number, percent, scoreChart, section, smallPrint, t, when } from "../ui.js";

/** @typedef {Replies["models_confidence"]} Confidence */

/** @param {Confidence} confidence @param {AbortSignal} signal */
export function confidenceOf(confidence, signal) {
	const { calibrated, reason, n, date, statistics, reliability, risk_coverage, prior, drift } = confidence;
	const said = calibrated
		? notice("good", t("confidence.calibrated", { n }), date && smallPrint(when(date)))
		: notice("warn", `${t("confidence.uncalibrated")} ${reason ?? ""}`, smallPrint(prior.about));
	const figure = (/** @type {number | null | undefined} */ value) => number(value, 3);
	return section(
		t("confidence.title"),
		said,
		h(
			"div.columns",
			reliability.length > 0 && h("div", h("h3", t("confidence.reliability")), reliabilityOf(reliability, signal)),
			risk_coverage.length > 0 && h("div", h("h3", t("confidence.risk")), thresholdOf(confidence, signal)),
		),
		facts([
			[t("confidence.accuracy"), statistics.accuracy === null ? "–" : percent(statistics.accuracy, 1)],
			[t("confidence.auroc"), figure(statistics.auroc)],
			[t("confidence.ece"), figure(statistics.calibration_error)],
			[t("confidence.chance"), figure(statistics.perfect_calibration_error?.p95)],
			[t("confidence.brier"), figure(statistics.brier)],
			[t("confidence.drift"), drift.reason ? t("confidence.nodrift", { why: drift.reason }) : t("confidence.driftn", { n: drift.n })],
		]),
	);
}

/** @param {Confidence["reliability"]} bins @param {AbortSignal} signal */
function reliabilityOf(bins, signal) {
	const ideal = /** @type {const} */ ({ label: t("confidence.ideal"), color: "muted", dashed: true });
	const label = t("confidence.accuracy");
	const axes = { x: t("confidence.score"), y: `${label} (%)`, label, others: [ideal] };
	const chart = scoreChart(t("confidence.reliability"), axes, signal);
	const sorted = [...bins].sort((a, b) => a.score - b.score);
	const at = sorted.map(({ score }) => score);
	const scores = sorted.map((one) => ({ score: one.accuracy, low: one.accuracy_low, high: one.accuracy_high }));
	chart.show(at, scores, t("confidence.reliability.words"), at);
	return chart.element;
}

/** Shows the risk-coverage curve, and a slider for the threshold. @param {Confidence} confidence @param {AbortSignal} signal */
function thresholdOf({ risk_coverage, threshold }, signal) {
	const curve = [...risk_coverage].sort((a, b) => a.coverage - b.coverage);
	const chart = lineChart(
		t("confidence.risk"),
		{
			x: `${t("confidence.coverage")} (%)`,
			y: `${t("confidence.error")} (%)`,
			lines: [
				{ label: t("confidence.error"), color: "accent" },
				{ label: t("confidence.threshold"), color: "second", dots: true },
			],
		},
		signal,
	);
	const id = newId();
	const told = h("output", { for: id });
	const slider = h("input", { id, type: "range", min: 0, max: 100, step: 1, value: threshold?.threshold ?? 50 });
	const draw = () => {
		const wanted = Number(slider.value);
		// The curve has only thresholds at which the accepted answers change. Any other accepts the same answers as the next higher one.
		const point = curve.filter((one) => one.threshold >= wanted).at(-1) ?? { coverage: 0, error: 0, n: 0 };
		chart.show(
			[curve.map((one) => one.coverage), curve.map((one) => one.error), curve.map((one) => (one === point ? one.error : null))],
			t("confidence.risk.words"),
		);
		fill(
			told,
			t("confidence.at", {
				threshold: wanted,
				coverage: percent(point.coverage / 100, 1),
				error: percent(point.error / 100, 1),
				n: number(point.n),
			}),
		);
		slider.setAttribute("aria-valuetext", told.textContent ?? "");
	};
	slider.addEventListener("input", draw);
	draw();
	const suggestion = threshold
		? t("confidence.suggested", {
				threshold: threshold.threshold,
				coverage: percent(threshold.coverage / 100, 1),
				bound: percent(threshold.error_bound / 100, 1),
			})
		: t("confidence.nothreshold");
	return h(
		"div",
		chart.element,
		h("div.field", h("label", { for: id }, t("confidence.threshold")), slider, h("p.hint", told)),
		h("p.small", suggestion),
	);
}
