// Line charts on uPlot, which /console/uplot.js defines. The colours are the page's; what a chart shows is also said in words.
import { t } from "../shell/language.js";
import { currentTheme, theme } from "../shell/theme.js";
import { h } from "./dom.js";

/** @typedef {(number | null)[]} Points */
/** @typedef {{ label: string, color: "accent" | "second" | "muted", dashed?: boolean, dots?: boolean, hidden?: boolean }} Line */

/** Colours of lines on the two backgrounds, each with a contrast of at least 3 to 1. */
const palette = {
	light: {
		accent: "#0b6b5e",
		second: "#b45309",
		muted: "#5b6472",
		text: "#3c4450",
		grid: "#e3e6ea",
		band: "#0b6b5e26",
	},
	dark: { accent: "#5fd1bd", second: "#f0a65a", muted: "#98a2b3", text: "#c3cad4", grid: "#2b323b", band: "#5fd1bd2e" },
};

/**
 * @param {string} name said to screen readers
 * @param {{ x: string, lines: Line[], band?: [upper: number, lower: number], height?: number, range?: [number, number] }} options
 * @param {AbortSignal} signal ends it
 */
export function lineChart(name, { x, lines, band, height = 220, range }, signal) {
	const place = h("div.chart-canvas", { "aria-hidden": "true" });
	const caption = h("figcaption", name);
	const figure = h("figure.chart", place, caption);
	/** @type {[number[], ...Points[]]} */
	let data = [[], ...lines.map(() => [])];
	/** @type {any} uPlot has no types for the global that its script defines. */
	let plot = null;

	function draw() {
		plot?.destroy();
		const colors = palette[currentTheme()];
		const axis = {
			stroke: colors.text,
			grid: { stroke: colors.grid, width: 1 },
			ticks: { show: false },
			font: "12px system-ui",
		};
		const width = place.clientWidth || 320;
		plot = new /** @type {any} */ (globalThis).uPlot(
			{
				width,
				height,
				cursor: { y: false },
				legend: { show: true },
				scales: { x: { time: false }, ...(range ? { y: { range } } : {}) },
				axes: [
					{ ...axis, size: 30 },
					{ ...axis, size: 46 },
				],
				series: [
					{ label: x },
					...lines.map(({ label, color, dashed, dots, hidden }) => ({
						label,
						stroke: hidden ? "transparent" : colors[color],
						width: hidden ? 0 : 2,
						dash: dashed ? [6, 4] : [],
						points: { show: dots === true },
						spanGaps: true,
					})),
				],
				bands: band ? [{ series: band, fill: colors.band }] : [],
			},
			data,
			place,
		);
	}

	const size = new ResizeObserver(() => {
		if (plot === null) draw();
		else if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height });
	});
	size.observe(place);
	theme.addEventListener("change", draw, { signal });
	signal.addEventListener("abort", () => {
		size.disconnect();
		plot?.destroy();
	});

	return {
		element: figure,
		/** @param {[number[], ...Points[]]} next @param {string} [words] what it shows now */
		show(next, words) {
			data = next;
			if (words !== undefined) caption.textContent = words;
			plot?.setData(data);
		},
	};
}

/** A score out of 100 with the ends of its interval. @typedef {{ score: number, low: number, high: number }} Score */

/**
 * Scores with the band of their intervals, and other lines beside them.
 * @param {string} name
 * @param {{ x: string, label: string, others?: Line[] }} options
 * @param {AbortSignal} signal
 */
export function scoreChart(name, { x, label, others = [] }, signal) {
	const end = (/** @type {string} */ text) => /** @type {Line} */ ({ label: text, color: "muted", hidden: true });
	const lines = [/** @type {Line} */ ({ label, color: "accent", dots: true }), end(t("field.low")), end(t("field.high")), ...others];
	const chart = lineChart(name, { x, range: [0, 100], band: [3, 2], lines }, signal);
	return {
		element: chart.element,
		/** @param {number[]} at @param {Score[]} scores @param {string} words @param {...Points} more of the other lines */
		show: (at, scores, words, ...more) =>
			chart.show([at, scores.map(({ score }) => score), scores.map(({ low }) => low), scores.map(({ high }) => high), ...more], words),
	};
}
