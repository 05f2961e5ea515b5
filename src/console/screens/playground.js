// Playground: one question to one or two models, side by side, e.g. an aligned model and its base. An aligned model's
// answer is shown with its confidence and the reasons for that.
import { alignedModels, baseModels, call, callText, may, stream } from "../api/client.js";
import {
	append,
	code,
	details,
	entries,
	failure,
	fill,
	form,
	h,
	head,
	link,
	list,
	number,
	percent,
	section,
	smallPrint,
	t,
} from "../ui.js";

import { noModel } from "./choices.js";

/** @typedef {{ id: string, name: string, baseId: string | null }} Model baseId is null for a base model */
/** @typedef {NonNullable<Replies["inference_chat"]["confidence"]>} Confidence */
/** @typedef {{ text: string, probability: number | null }} Piece of an answer, as it arrived */

const path = "/api/v3/inference";
/** A piece that is less probable than this is marked. */
const unsureBelow = 0.5;

/** @param {View} view */
export async function show(view) {
	const { signal, place, query } = view;
	const [bases, aligned] = await Promise.all([baseModels(), alignedModels()]);
	/** @type {Model[]} */
	const models = [
		...aligned
			.filter((one) => one.deployment_status === "DEPLOYED")
			.map((one) => ({ id: one.model_id, name: one.model_name, baseId: one.base_model_id })),
		...bases.filter(({ kind }) => kind === "text").map((one) => ({ id: one.model_id, name: one.model_name, baseId: null })),
	];
	const top = head(t("nav.playground"), { lead: [t("playground.lead"), h("span.keys", ` ${t("playground.keys")}`)] });
	if (models.length === 0) return fill(place, top, noModel("models.nobase"));
	const chosen = models.find(({ id }) => id === query.get("model")) ?? /** @type {Model} */ (models[0]);
	const options = models.map((one) => ({
		value: one.id,
		text: one.name,
		group: t(one.baseId === null ? "models.bases" : "models.aligned"),
	}));
	const answers = h("div.columns", { "aria-live": "polite", "aria-busy": "false" });
	const request = section(
		t("playground.request"),
		h("h3", "curl"),
		code("", "curl"),
		["openai (JavaScript)", "openai (Python)"].map((name) => details(name, code("", name))),
	);
	let asking = new AbortController();
	signal.addEventListener("abort", () => asking.abort());
	const stop = h("button", { hidden: true, onclick: () => asking.abort() }, t("action.stop"));

	/** @param {Values} values */
	async function ask(values) {
		asking = new AbortController();
		const sides = [values.model, values.other].flatMap((id) => models.filter((one) => one.id === id));
		fill(answers);
		stop.hidden = false;
		answers.setAttribute("aria-busy", "true");
		await Promise.all(
			sides.map((model) => {
				const side = h("section.card", h("h2", model.name));
				append(answers, side);
				return answerIn(side, bodyOf(values, model.id), asking.signal);
			}),
		);
		stop.hidden = true;
		answers.setAttribute("aria-busy", "false");
	}

	const made = form(
		[
			{ name: "question", label: t("playground.question"), type: "textarea", required: true, more: { class: "wide" } },
			{ name: "model", label: t("field.model"), options, value: chosen.id },
			{
				name: "other",
				label: t("evaluation.against"),
				options: [{ value: "", text: t("playground.alone") }, ...options],
				value: chosen.baseId ?? "",
			},
			{ name: "system", label: t("playground.system"), type: "textarea", hint: t("field.optional"), more: { class: "wide" } },
			{
				name: "temperature",
				label: t("playground.temperature"),
				type: "number",
				value: 0,
				hint: t("playground.temperature.hint"),
				more: { min: 0, max: 2, step: 0.1 },
			},
			{ name: "max_tokens", label: t("playground.tokens"), type: "number", value: 200, more: { min: 1, max: 100000 } },
		],
		{ submit: t("playground.ask"), onSubmit: ask, actions: [stop] },
	);
	made.addEventListener("keydown", ({ key, ctrlKey, metaKey }) => {
		if (key === "Enter" && (ctrlKey || metaKey)) made.requestSubmit();
	});
	const told = () => {
		const values = /** @type {Values} */ (Object.fromEntries(new FormData(made)));
		const texts = requestsOf(bodyOf({ ...values, question: values.question || t("playground.example") }, String(values.model)));
		for (const [at, pre] of [...request.querySelectorAll("pre")].entries()) pre.textContent = texts[at] ?? "";
	};
	made.addEventListener("input", told);
	told();
	fill(place, top, h("div.card.grid-form", made), answers, request);
}

/** @param {Values} values @param {string} model */
function bodyOf({ question, system, temperature, max_tokens }, model) {
	const messages = [...(system ? [{ role: "system", content: String(system) }] : []), { role: "user", content: String(question) }];
	return {
		model,
		messages,
		temperature: Number(temperature === "" ? 1 : (temperature ?? 1)),
		...(max_tokens ? { max_tokens: Number(max_tokens) } : {}),
	};
}

/** @param {HTMLElement} side @param {ReturnType<typeof bodyOf>} body @param {AbortSignal} signal */
async function answerIn(side, body, signal) {
	const text = h("div.answer");
	const below = h("div");
	append(side, text, below);
	/** @type {Piece[]} */
	const pieces = [];
	/** @type {{ confidence_score?: number | null, confidence?: Confidence | null, usage?: { completion_tokens: number } }} */
	const answer = {};
	const started = performance.now();
	try {
		for await (const { data } of stream("inference_chat", {
			body: { ...body, stream: true, logprobs: true, stream_options: { include_usage: true } },
			signal,
		})) {
			if (data === "[DONE]") break;
			const chunk = JSON.parse(data);
			if (chunk.error) throw new Error(`${chunk.error.message}. ${chunk.error.hint ?? ""}`);
			const [choice] = chunk.choices;
			if (choice?.delta?.content) {
				const piece = pieceOf(choice);
				pieces.push(piece);
				append(text, shownPiece(piece));
			}
			// The confidence and the usage may come in chunks of their own.
			if (chunk.usage) answer.usage = chunk.usage;
			if (chunk.confidence) {
				answer.confidence = chunk.confidence;
				answer.confidence_score = chunk.confidence_score;
			}
		}
		mark(text, pieces, answer.confidence ?? null);
		append(below, scoreOf(answer, performance.now() - started), answer.confidence && (await groundingOf(answer.confidence)));
	} catch (error) {
		if (signal.aborted) append(below, smallPrint(t("playground.stopped")));
		else append(below, failure(error));
	}
}

/** @param {{ delta: { content: string }, logprobs: { content: { logprob: number }[] } | null }} choice @returns {Piece} */
function pieceOf({ delta, logprobs }) {
	const all = logprobs?.content.map(({ logprob }) => logprob) ?? [];
	return { text: delta.content, probability: all.length > 0 ? Math.exp(Math.min(...all)) : null };
}

/** @param {Piece} piece */
const shownPiece = ({ text, probability }) =>
	probability === null || probability >= unsureBelow || text.trim() === ""
		? text
		: h("mark.unsure", { title: t("playground.probability", { share: percent(probability) }) }, text);

/**
 * Redraws the whole answer with the least certain word marked.
 * @param {HTMLElement} place @param {Piece[]} pieces @param {Confidence | null} confidence
 */
function mark(place, pieces, confidence) {
	const word = confidence?.least_certain;
	if (!word) return;
	const whole = pieces.map(({ text }) => text).join("");
	// The API counts code points, but strings here count UTF-16 units.
	const points = [...whole];
	const [start, end] = [word.start, word.end].map((at) => points.slice(0, at).join("").length);
	const [from, to] = [Number(start), Number(end)];
	const title = t("playground.probability", { share: percent(word.probability) });
	fill(place, part(pieces, 0, from), h("mark", { title }, whole.slice(from, to)), part(pieces, to, whole.length));
}

/**
 * Returns the pieces between two positions of the whole text. A piece that crosses a position is cut there.
 * @param {Piece[]} pieces @param {number} from @param {number} to
 */
function part(pieces, from, to) {
	let at = 0;
	return pieces.map(({ text, probability }) => {
		const begin = at;
		at += text.length;
		const cut = text.slice(Math.max(0, from - begin), Math.max(0, to - begin));
		return cut === "" ? null : shownPiece({ text: cut, probability });
	});
}

/** @param {{ confidence_score?: number | null, confidence?: Confidence | null, usage?: { completion_tokens: number } }} answer @param {number} ms */
function scoreOf({ confidence_score, confidence, usage }, ms) {
	const tokens = usage?.completion_tokens ?? 0;
	const speed = t("playground.speed", { n: tokens, rate: number(tokens / (ms / 1000), 1) });
	if (confidence_score == null || !confidence)
		return h("p.score-line", h("span.soft", t("playground.noconfidence")), h("span.small", speed));
	return h(
		"div",
		h(
			"p.score-line",
			h("span", t("confidence.score")),
			h("span.score", number(confidence_score)),
			h("span", t("confidence.of")),
			h("span.small", speed),
		),
		h("h3", t("playground.why")),
		list(reasonsOf(confidence)),
	);
}

/** Returns the reasons to trust or doubt an answer, in words. @param {Confidence} confidence */
function reasonsOf({ drift, calibrated, reason, n, least_certain: least, sources }) {
	const best = sources?.[0]?.grounding;
	return [
		least && t("playground.least", { word: least.text, share: percent(least.probability) }),
		drift.p_value === null
			? t("playground.nodrift", { why: drift.reason ?? "" })
			: t("playground.drift", { share: percent(drift.p_value) }),
		sources !== null && (best === undefined ? t("playground.ungrounded") : t("playground.grounded", { share: percent(best) })),
		calibrated ? t("confidence.calibrated", { n }) : `${t("confidence.uncalibrated")} ${reason ?? ""}`,
	].filter(Boolean);
}

/**
 * Shows the passages that support an answer. Null if there are none, or if the key may not read documents.
 * @param {Confidence} confidence
 */
async function groundingOf({ sources }) {
	if (!sources?.length || !may("documents_get")) return null;
	const items = await Promise.all(
		sources.map(async ({ document_id, start, end, grounding, deleted }) => {
			const params = document_id;
			const known = deleted
				? null
				: await Promise.all([call("documents_get", { params }), callText("documents_text", { params })]).catch(() => null);
			if (known === null) return t("playground.gone");
			const [{ name }, text] = known;
			return [
				link(`#/documents/${document_id}`, name),
				h("span.small", ` · ${t("playground.grounding", { share: percent(grounding) })}`),
				h("blockquote", text.slice(start, end)),
			];
		}),
	);
	return h("div", h("h3", t("playground.sources")), entries(items));
}

/**
 * Returns code that sends the request: for curl, and for the openai packages of JavaScript and Python.
 * @param {ReturnType<typeof bodyOf>} body
 */
function requestsOf(body) {
	const address = `${location.origin}${path}`;
	const json = JSON.stringify(body, null, 2);
	const curl = `curl ${address}/chat/completions \\\n  -H "Authorization: Bearer $PLUMBLINE_KEY" -H "Content-Type: application/json" \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
	const openai = `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${address}", apiKey: process.env.PLUMBLINE_KEY });\nconst answer = await client.chat.completions.create(${json});\nconsole.log(answer.choices[0].message.content, answer.confidence_score);`;
	const python = `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${address}", api_key=os.environ["PLUMBLINE_KEY"])\nanswer = client.chat.completions.create(**${pythonOf(body)})\nprint(answer.choices[0].message.content, answer.confidence_score)`;
	return [curl, openai, python];
}

/** Returns JSON, which is also Python here, because a request has only strings and numbers. @param {object} body */
const pythonOf = (body) => JSON.stringify(body, null, 4);
