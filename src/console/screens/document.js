// One document: what was read of it, and which passages were learned, are asked about, or gave nothing.
import { call, callAll, callText, orNull } from "../api/client.js";
import { confirmAct } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { actButton, facts, head, section } from "../parts/page.js";
import { notice } from "../parts/states.js";
import { bytes, number, percent, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["alignments_coverage"]["documents"][number]["passages"][number]} Passage */
/** @typedef {{ start: number, end: number, question: string }} Asked */

/** Characters shown at first; a longer text would make the page slow. */
const shownAtFirst = 200_000;

/** @param {View} view @param {string} id */
export async function showDocument(view, id) {
	const { signal, place, query } = view;
	const params = { document_id: id };
	const [record, text, { snapshots }, benchmarks] = await Promise.all([
		call("documents_get", { params, signal }),
		callText("documents_text", { params, signal }),
		call("documents_snapshots", { params, signal }),
		callAll("benchmarks_list", (reply) => reply.benchmarks, { signal }),
	]);
	const alignment = snapshots.find((one) => one.alignment_id === query.get("alignment")) ?? snapshots[0];
	const about = benchmarks.filter((one) => one.status === "READY" && citable(one, id));
	const benchmark = about.find((one) => one.benchmark_id === query.get("benchmark")) ?? about[0];
	const [coverage, asked] = await Promise.all([
		alignment ? orNull(call("alignments_coverage", { params: { alignment_id: alignment.alignment_id }, signal }), 403, 404) : null,
		benchmark ? askedIn(benchmark.benchmark_id, record, text, signal) : [],
	]);
	const passages = coverage?.documents.find((one) => one.document_id === id)?.passages ?? [];
	const remove = actButton(t("action.delete"), () => removeDocument(view, id, record.name, snapshots.length), {
		kind: "danger",
		onError: view.fail,
	});
	fill(
		place,
		head(record.name, { back: { href: "#/documents", text: t("nav.documents") }, actions: [remove] }),
		warningsOf(record),
		section(t("document.read"), readFacts(record)),
		section(
			t("document.coverage"),
			choices(view, id, { snapshots, about, alignment: alignment?.alignment_id, benchmark: benchmark?.benchmark_id }),
			passages.length === 0 && h("p", { class: "soft" }, t("document.unaligned")),
			passages.length > 0 && summary(passages, asked),
			legend(),
			textOf(text, passages, asked),
		),
	);
}

/** An uploaded benchmark names the file it came in, so what its items cite decides. @param {Replies["benchmarks_get"]} benchmark @param {string} id */
const citable = (benchmark, id) => benchmark.generation === null || benchmark.document_ids.includes(id);

/**
 * Where in the text the benchmark's items have their answers.
 * @param {string} benchmarkId
 * @param {{ document_id: string, name: string }} record
 * @param {string} text
 * @param {AbortSignal} signal
 * @returns {Promise<Asked[]>}
 */
async function askedIn(benchmarkId, { document_id, name }, text, signal) {
	const data = await orNull(call("benchmarks_data", { params: { benchmark_id: benchmarkId }, signal }), 403, 404, 409);
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
	const lines = (report?.warnings ?? []).map(({ message }) => h("li", {}, message));
	if (duplicates.exact + duplicates.near > 0)
		lines.push(h("li", {}, t("document.duplicates", { exact: duplicates.exact, near: duplicates.near, n: duplicates.documents.length })));
	return lines.length > 0 && notice("warn", h("ul", { class: "list" }, lines));
}

/** @param {Replies["documents_get"]} record */
function readFacts({ format, bytes: size, characters, created_at, sha256, report }) {
	const data = Object.entries(report?.personal_data.found ?? {});
	return facts([
		[t("documents.format"), format],
		[t("field.size"), bytes(size)],
		[t("documents.characters"), number(characters)],
		[t("document.pages"), report?.pages ? number(report.pages.count) : "–"],
		[t("document.without"), report?.pages?.without_text.join(", ") || "–"],
		[t("documents.language"), report?.language.main ? `${report.language.main} (${percent(report.language.share)})` : "–"],
		[t("document.words"), report ? number(report.quality.words) : "–"],
		[t("document.personal"), data.map(([kind, n]) => `${kind} ${number(n)}`).join(", ") || "–"],
		[t("field.created"), when(created_at)],
		["SHA-256", h("code", {}, sha256.slice(0, 16))],
	]);
}

/**
 * @param {View} view
 * @param {string} id
 * @param {{ snapshots: Replies["documents_snapshots"]["snapshots"], about: Replies["benchmarks_list"]["benchmarks"], alignment: string | undefined, benchmark: string | undefined }} known
 */
function choices({ query }, id, { snapshots, about, alignment, benchmark }) {
	const choose = (/** @type {string} */ name) => (/** @type {Event} */ event) => {
		const next = new URLSearchParams(query);
		next.set(name, /** @type {HTMLSelectElement} */ (event.target).value);
		go(`#/documents/${id}?${next}`);
	};
	return h(
		"div",
		{ class: "filters" },
		snapshots.length > 0 &&
			h(
				"label",
				{},
				t("document.alignment"),
				h(
					"select",
					{ onchange: choose("alignment") },
					snapshots.map((one) => h("option", { value: one.alignment_id, selected: one.alignment_id === alignment }, one.name)),
				),
			),
		about.length > 0 &&
			h(
				"label",
				{},
				t("document.benchmark"),
				h(
					"select",
					{ onchange: choose("benchmark") },
					about.map((one) =>
						h("option", { value: one.benchmark_id, selected: one.benchmark_id === benchmark }, `${one.name} v${one.version}`),
					),
				),
			),
	);
}

/** @param {Passage[]} passages @param {Asked[]} asked */
function summary(passages, asked) {
	const learned = passages.filter(({ rows }) => rows > 0).length;
	const questioned = passages.filter((one) => askedOf(one, asked).length > 0).length;
	return h(
		"p",
		{},
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
		"p",
		{ class: "legend" },
		h("span", { class: "learned" }, t("coverage.learned")),
		h("span", { class: "asked" }, t("coverage.asked")),
		h("span", { class: "nothing" }, t("coverage.nothing")),
	);

/** @param {Passage} passage @param {Asked[]} asked */
const askedOf = ({ start, end }, asked) => asked.filter((one) => one.start < end && one.end > start);

/** @param {string} text @param {Passage[]} passages @param {Asked[]} asked */
function textOf(text, passages, asked) {
	const place = h("div", { class: "text", tabindex: "0", role: "region", "aria-label": t("document.text") });
	const draw = (/** @type {number} */ most) =>
		fill(place, passages.length > 0 ? marked(text, passages, asked, most) : quoted(text, asked, most));
	draw(shownAtFirst);
	if (text.length <= shownAtFirst) return place;
	const more = h("button", { type: "button" }, t("document.rest"));
	more.addEventListener("click", () => {
		draw(text.length);
		more.remove();
	});
	return h("div", {}, place, h("p", {}, more));
}

/** The text with its passages coloured. @param {string} text @param {Passage[]} passages @param {Asked[]} asked @param {number} most */
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
			questions.length > 0 && t("coverage.questions", { n: questions.length }),
		].filter(Boolean);
		const title = questions.map(({ question }) => question).join("\n");
		parts.push(
			h(
				"div",
				{ class: `passage ${kinds}`, title },
				h("span", { class: "passage-note" }, note.join(" · ")),
				text.slice(passage.start, passage.end).trim(),
			),
		);
	}
	if (at < most) parts.push(text.slice(at, most).trim());
	return parts;
}

/** The text with what is asked about marked. @param {string} text @param {Asked[]} asked @param {number} most */
function quoted(text, asked, most) {
	/** @type {(Node | string)[]} */
	const parts = [];
	let at = 0;
	for (const { start, end, question } of [...asked].sort((a, b) => a.start - b.start)) {
		if (start < at || start >= most) continue;
		parts.push(text.slice(at, start), h("mark", { class: "asked", title: question }, text.slice(start, end)));
		at = end;
	}
	return [...parts, text.slice(at, most)];
}

/** @param {View} view @param {string} id @param {string} name @param {number} snapshots */
async function removeDocument({ signal }, id, name, snapshots) {
	const text = snapshots > 0 ? t("document.delete.kept", { n: snapshots }) : t("document.delete.text");
	if (!(await confirmAct(t("document.delete", { name }), text, t("action.delete")))) return;
	await call("documents_delete", { params: { document_id: id }, signal });
	go("#/documents");
}
