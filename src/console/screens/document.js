// One document: what was read from it, and which passages gave training rows, are asked about, or gave nothing.
import { call, callAll, callIfMay, callText, orNull } from "../api/client.js";
import {
	bytes,
	deleteButton,
	entries,
	facts,
	fill,
	h,
	head,
	languageName,
	link,
	notice,
	number,
	percent,
	said,
	section,
	t,
	when,
	word,
} from "../ui.js";

/** @typedef {Replies["alignments_coverage"]["documents"][number]["passages"][number]} Passage */
/** @typedef {{ start: number, end: number, question: string }} Asked */

/** Number of characters shown at first, because a longer text would make the page slow. */
const shownAtFirst = 200_000;

/** @param {View} view @param {string} id */
export async function showDocument(view, id) {
	const { place, query } = view;
	const params = id;
	const [record, text, { snapshots }, benchmarks] = await Promise.all([
		call("documents_get", { params }),
		callText("documents_text", { params }),
		call("documents_snapshots", { params }),
		callAll("benchmarks_list", (reply) => reply.benchmarks),
	]);
	const alignment = snapshots.find((one) => one.alignment_id === query.get("alignment")) ?? snapshots[0];
	const about = benchmarks.filter((one) => one.status === "READY" && citable(one, id));
	const benchmark = about.find((one) => one.benchmark_id === query.get("benchmark")) ?? about[0];
	const [coverage, asked] = await Promise.all([
		alignment ? orNull(callIfMay("alignments_coverage", { params: alignment.alignment_id }), 404) : null,
		benchmark ? askedIn(benchmark.benchmark_id, record, text) : [],
	]);
	const passages = coverage?.documents.find((one) => one.document_id === id)?.passages ?? [];
	const kept = snapshots.length;
	const deletion = kept > 0 ? t("document.delete.kept", { n: kept }) : t("document.delete.text");
	fill(
		place,
		head(record.name, { back: "documents", actions: [deleteButton(view, "documents_delete", record.name, deletion)] }),
		warningsOf(record),
		section(t("document.read"), readFacts(record)),
		section(
			t("document.coverage"),
			choices(view, id, { snapshots, about, alignment: alignment?.alignment_id, benchmark: benchmark?.benchmark_id }),
			passages.length > 0
				? [summary(passages, asked), legend()]
				: h("p.soft", t("document.unaligned"), " ", link("#/alignments/new", t("alignments.new"))),
			textOf(text, passages, asked),
		),
	);
}

/**
 * Whether a benchmark's items may cite the document. An uploaded benchmark lists only its own file, so any document is possible.
 * @param {Replies["benchmarks_get"]} benchmark @param {string} id
 */
const citable = (benchmark, id) => benchmark.generation === null || benchmark.document_ids.includes(id);

/**
 * Returns the places in the text that the benchmark's items cite for their answers.
 * @param {string} benchmarkId
 * @param {{ document_id: string, name: string }} record
 * @param {string} text
 * @returns {Promise<Asked[]>}
 */
async function askedIn(benchmarkId, { document_id, name }, text) {
	const data = await orNull(call("benchmarks_data", { params: benchmarkId }), 404, 409);
	return (data?.samples ?? []).flatMap(({ instruction, citations }) =>
		citations.flatMap((one) => {
			if (one.document !== document_id && one.document !== name) return [];
			const start = one.start ?? text.indexOf(one.quote);
			return start < 0 ? [] : [{ start, end: one.end ?? start + one.quote.length, question: instruction }];
		}),
	);
}

/** @param {Replies["documents_get"]} record */
function warningsOf({ report, duplicates }) {
	const { exact, near } = duplicates;
	const { quality, pages } = report ?? {};
	const share = (/** @type {number | undefined} */ value) => percent(value ?? 0);
	const known = {
		n: pages?.without_text.length,
		all: pages?.count,
		words: quality?.words,
		length: number(quality?.mean_word_length, 1),
		symbols: number(quality?.symbols, 2),
		wordless: share(quality?.wordless),
		lines: share(quality?.repeated_lines),
		phrases: share(quality?.repeated_phrases),
		pages: pages?.without_text.join(", "),
	};
	const lines = (report?.warnings ?? []).map(({ code, message, parameters }) =>
		said(`warning.${code}`, message, { ...known, ...parameters }),
	);
	if (exact + near > 0) lines.push(t("document.duplicates", { n: exact + near }));
	return lines.length > 0 && notice("warn", entries(lines));
}

/** @param {Replies["documents_get"]} one */
function readFacts(one) {
	const { report } = one;
	const data = Object.entries(report?.personal_data.found ?? {}).map(([kind, n]) => `${word("personal", kind)} (${number(n)})`);
	const language = report?.language.main;
	/** @type {[string, Child][]} */
	const pages = report?.pages
		? [
				[t("document.pages"), report.pages.count],
				[t("document.without"), report.pages.without_text.join(", ") || t("state.none")],
			]
		: [];
	return facts([
		[t("documents.format"), formatName(one.format)],
		[t("field.size"), bytes(one.bytes)],
		[t("documents.characters"), one.characters],
		[t("document.words"), report?.quality.words],
		...pages,
		[t("shell.language"), language && t("document.language", { language: languageName(language), share: percent(report.language.share) })],
		[t("document.personal"), report && report.personal_data.mode !== "off" ? data.join(", ") || t("state.none") : "–"],
		[t("documents.at"), when(one.created_at)],
		["SHA-256", h("code", `${one.sha256.slice(0, 16)}…`)],
	]);
}

/** @param {string} format */
export const formatName = (format) => word("format", format, format.toUpperCase());

/**
 * @param {View} view
 * @param {string} id
 * @param {{ snapshots: Replies["documents_snapshots"]["snapshots"], about: Replies["benchmarks_list"]["benchmarks"], alignment: string | undefined, benchmark: string | undefined }} known
 */
function choices(view, id, { snapshots, about, alignment, benchmark }) {
	/** @param {"alignment" | "benchmark"} name @param {[value: string, text: string][]} options @param {string | undefined} chosen */
	const choice = (name, options, chosen) => {
		const select = h(
			"select",
			options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
		);
		select.addEventListener("change", () => {
			view.query.set(name, select.value);
			view.go(`#/documents/${id}?${view.query}`);
		});
		return options.length > 0 && h("label", t(`document.${name}`), select);
	};
	if (snapshots.length + about.length === 0) return null;
	return h(
		"div.filters",
		choice(
			"alignment",
			snapshots.map((one) => [one.alignment_id, one.name]),
			alignment,
		),
		choice(
			"benchmark",
			about.map((one) => [one.benchmark_id, `${one.name} v${one.version}`]),
			benchmark,
		),
	);
}

/** @param {Passage[]} passages @param {Asked[]} asked */
function summary(passages, asked) {
	const learned = passages.filter(({ rows }) => rows > 0).length;
	const questioned = passages.filter((one) => askedOf(one, asked).length > 0).length;
	return h(
		"p",
		t("document.summary", {
			learned,
			all: passages.length,
			asked: questioned,
			share: percent(learned / passages.length),
		}),
	);
}

const legend = () =>
	h(
		"p.legend",
		["learned", "asked", "nothing"].map((kind) => h(/** @type {"span"} */ (`span.${kind}`), word("coverage", kind))),
		h("span.learned.asked", t("coverage.both")),
	);

/** @param {Passage} passage @param {Asked[]} asked */
const askedOf = ({ start, end }, asked) => asked.filter((one) => one.start < end && one.end > start);

/** @param {string} text @param {Passage[]} passages @param {Asked[]} asked */
function textOf(text, passages, asked) {
	const place = h("div.text", { tabindex: "0", role: "region", "aria-label": t("document.text") });
	const draw = (/** @type {number} */ most) =>
		fill(place, passages.length > 0 ? marked(text, passages, asked, most) : quoted(text, asked, most));
	draw(shownAtFirst);
	if (text.length <= shownAtFirst) return place;
	const more = h("button", t("document.rest"));
	more.addEventListener("click", () => {
		draw(text.length);
		more.remove();
	});
	return h("div", place, h("p", more));
}

/**
 * Returns the text with its passages coloured.
 * @param {string} text @param {Passage[]} passages @param {Asked[]} asked @param {number} most
 */
function marked(text, passages, asked, most) {
	/** @type {(Node | string)[]} */
	const parts = [];
	let at = 0;
	for (const passage of [...passages].sort((a, b) => a.start - b.start)) {
		if (passage.start >= most) break;
		if (passage.start > at) parts.push(text.slice(at, passage.start).trim());
		at = Math.max(at, passage.end);
		const questions = askedOf(passage, asked);
		const kinds = [passage.rows > 0 ? "learned" : "nothing", questions.length > 0 && "asked"].filter(Boolean).join(" ");
		const note = [
			passage.rows > 0 ? t("coverage.rows", { n: passage.rows }) : word("uncovered", passage.none ?? ""),
			questions.length > 0 && t("evaluation.n", { n: questions.length }),
		].filter(Boolean);
		const title = questions.map(({ question }) => question).join("\n");
		parts.push(
			h(
				"div",
				{ class: `passage ${kinds}`, title },
				h("span.passage-note", note.join(" · ")),
				text.slice(passage.start, passage.end).trim(),
			),
		);
	}
	if (at < most) parts.push(text.slice(at, most).trim());
	return parts;
}

/** Returns the text and marks what the items cite. @param {string} text @param {Asked[]} asked @param {number} most */
function quoted(text, asked, most) {
	/** @type {(Node | string)[]} */
	const parts = [];
	let at = 0;
	for (const { start, end, question } of [...asked].sort((a, b) => a.start - b.start)) {
		if (start < at || start >= most) continue;
		parts.push(text.slice(at, start), h("mark.asked", { title: question }, text.slice(start, end)));
		at = end;
	}
	return [...parts, text.slice(at, most)];
}
