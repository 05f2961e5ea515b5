// Line charts, drawn by uPlot, a global that /console/uplot.js defines. They use the colours of the page's theme. A caption says in
// words what a chart shows.
import { number, range as rangeOf, t } from "../shell/language.js";
import { currentTheme, theme } from "../shell/theme.js";
import { fill, h } from "./dom.js";

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
 * @param {string} name the caption until `show` gives another
 * @param {{ x: string, y: string, lines: Line[], band?: [upper: number, lower: number], height?: number, range?: [number, number] }} options `x` and `y` name the axes
 * @param {AbortSignal} signal removes the chart when aborted
 */
export function lineChart(name, { x, y, lines, band, height = 250, range }, signal) {
	const place = h("div.chart-canvas", { "aria-hidden": "true" });
	const legend = h("p.chart-legend", { "aria-hidden": "true" });
	const caption = h("figcaption", name);
	const figure = h("figure.chart", place, legend, caption);
	/** @type {[number[], ...Points[]]} */
	let data = [[], ...lines.map(() => [])];
	/** @type {any} uPlot has no types for the global that its script defines. */
	let plot = null;

	/** Draws the legend: the lines' colours and, under the pointer, their values. @param {number | null} [at] */
	function drawLegend(at) {
		const colors = palette[currentTheme()];
		const valueAt = (/** @type {number} */ line) => (at == null ? null : data[line + 1]?.[at]);
		/** @param {string} kind @param {"borderColor" | "background"} property @param {string} color @param {Child} text */
		const entry = (kind, property, color, text) => {
			const mark = h("i", { class: kind });
			mark.style[property] = color;
			return h("span", mark, text);
		};
		const shown = lines.flatMap(({ label, color, dashed, hidden }, line) => {
			const value = valueAt(line);
			const text = value == null ? label : `${label} ${number(value, 2)}`;
			return hidden ? [] : [entry(dashed ? "dashed" : "", "borderColor", colors[color], text)];
		});
		if (band) {
			const [high, low] = band.map((series) => valueAt(series - 1));
			shown.push(entry("band", "background", colors.band, [t("field.interval"), low != null && ` ${rangeOf(low, high)}`]));
		}
		fill(legend, at == null ? null : h("span", `${x} ${number(data[0][at], 2)}`), shown);
	}

	function draw() {
		plot?.destroy();
		const colors = palette[currentTheme()];
		const font = "12px system-ui";
		const axis = {
			stroke: colors.text,
			grid: { stroke: colors.grid, width: 1 },
			ticks: { show: false },
			font,
			labelFont: font,
			labelSize: 20,
			labelGap: 2,
			values: (/** @type {unknown} */ _, /** @type {number[]} */ splits) => splits.map((value) => number(value, 3)),
		};
		const width = place.clientWidth || 320;
		plot = new /** @type {any} */ (globalThis).uPlot(
			{
				width,
				height,
				cursor: { y: false },
				legend: { show: false },
				hooks: { setCursor: [(/** @type {any} */ of) => drawLegend(of.cursor.idx)] },
				scales: { x: { time: false }, ...(range ? { y: { range } } : {}) },
				axes: [
					{ ...axis, label: x, size: 34, gap: 8 },
					{ ...axis, label: y, size: 46 },
				],
				series: [
					{},
					...lines.map(({ color, dashed, dots, hidden }) => ({
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
		drawLegend();
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
		/** @param {[number[], ...Points[]]} next @param {string} [words] a caption of what the chart shows now */
		show(next, words) {
			data = next;
			if (words !== undefined) caption.textContent = words;
			plot?.setData(data);
		},
	};
}

/** A score out of 100 with the ends of its interval. @typedef {{ score: number, low: number, high: number }} Score */

/**
 * Makes a chart of scores, with a band for their intervals, and of other lines.
 * @param {string} name
 * @param {{ x: string, y?: string, label: string, others?: Line[] }} options
 * @param {AbortSignal} signal
 */
export function scoreChart(name, { x, y = t("field.scored"), label, others = [] }, signal) {
	const end = /** @type {Line} */ ({ label: "", color: "muted", hidden: true });
	const lines = [/** @type {Line} */ ({ label, color: "accent", dots: true }), end, end, ...others];
	const chart = lineChart(name, { x, y, range: [0, 100], band: [3, 2], lines }, signal);
	return {
		element: chart.element,
		/** @param {number[]} at @param {Score[]} scores @param {string} words @param {...Points} more values of the other lines */
		show: (at, scores, words, ...more) =>
			chart.show([at, scores.map(({ score }) => score), scores.map(({ low }) => low), scores.map(({ high }) => high), ...more], words),
	};
}
