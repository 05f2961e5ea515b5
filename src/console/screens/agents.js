// Agents: models with a system prompt of their own. On this screen they are made, asked, rated and changed.
import { call, callWithId, onceKey } from "../api/client.js";
import {
	actButton,
	announce,
	append,
	code,
	deleteButton,
	entries,
	facts,
	fill,
	form,
	h,
	head,
	link,
	listScreen,
	mainLink,
	number,
	section,
	smallPrint,
	statusBadge,
	t,
	when,
	word,
} from "../ui.js";
import { modelOptions, noModel } from "./choices.js";

/** @typedef {Replies["agents_get"]["data"]} Agent */

/** @param {View} view */
export async function show(view) {
	if (view.id === "new") return showNew(view);
	if (view.id !== null) return showAgent(view, view.id);
	await listScreen(
		view,
		"agents",
		[
			[t("field.name"), (one) => link(`#/agents/${one.id}`, one.name)],
			[t("field.status"), (one) => statusBadge(one.status)],
			[t("field.model"), (one) => link(`#/models/${one.base_model}`, one.base_model_name)],
			[t("agents.answers"), (one) => one.usage_count],
			[t("agents.used"), (one) => when(one.last_used, "short", t("state.never")), "when"],
		],
		(reply) => reply.data,
		{ actions: () => [mainLink("#/agents/new", t("agents.new"))] },
	);
}

/** @param {Agent} [agent] @returns {Promise<Field[]>} */
async function fieldsOf(agent) {
	const models = await modelOptions();
	// A deleted model cannot be sent, so its option has no value.
	if (agent && !models.some(({ value }) => value === agent.base_model)) models.unshift({ value: "", text: agent.base_model_name });
	const current = agent?.base_model ?? models[0]?.value ?? "";
	return [
		{ name: "name", label: t("field.name"), required: true, value: agent?.name ?? "", more: { maxlength: 200 } },
		{ name: "base_model", label: t("field.model"), options: models, value: current },
		{
			name: "system_prompt",
			label: t("playground.system"),
			type: "textarea",
			value: agent?.system_prompt ?? "",
			hint: t("field.optional"),
		},
		{
			name: "temperature",
			label: t("playground.temperature"),
			type: "number",
			value: agent?.temperature ?? 1,
			hint: t("playground.temperature.hint"),
			more: { min: 0, max: 2, step: "any" },
		},
		{ name: "description", label: t("field.description"), value: agent?.description ?? "", hint: t("field.optional") },
		{
			name: "conversation_saving_enabled",
			label: t("agents.saves"),
			type: "checkbox",
			value: agent?.conversation_saving_enabled ?? false,
			hint: t("agents.saves.hint"),
		},
	];
}

/** @param {View} view */
async function showNew(view) {
	const key = onceKey();
	const top = head(t("agents.new"), { back: "agents" });
	const fields = await fieldsOf();
	if (!fields.some(({ options }) => options?.length)) return fill(view.place, top, noModel("models.nobase"));
	const made = form(fields, {
		submit: t("agents.make"),
		async onSubmit(body) {
			const { data } = await call("agents_create", { body, onceKey: key });
			view.go(`#/agents/${data.id}`);
		},
	});
	fill(view.place, top, section(t("agents.what"), made));
}

/** @param {View} view @param {string} id */
async function showAgent(view, id) {
	const { place } = view;
	const params = id;
	const { data: agent } = await call("agents_get", { params });
	const { turns } = await call("agents_conversations", { params, query: { limit: 50 } });
	const change = form(await fieldsOf(agent), {
		submit: t("action.save"),
		async onSubmit(values) {
			// An emptied field is sent as the empty string, because a field that is left out keeps its value.
			const body = { ...values, system_prompt: values.system_prompt ?? "", description: values.description ?? "" };
			await call("agents_update", { params, body });
			announce(t("action.saved"));
			await view.reload();
		},
	});
	const figures = h("div", figuresOf(agent));
	const count = async () => fill(figures, figuresOf((await call("agents_get", { params })).data));
	fill(
		place,
		head(agent.name, {
			lead: agent.description,
			back: "agents",
			actions: [statusBadge(agent.status), deleteButton(view, "agents_delete", agent.name, t("agents.delete.text"))],
		}),
		h("div.columns", section(t("agents.ask"), askForm(params, count)), section(t("agents.figures"), figures)),
		section(t("agents.what"), change),
		section(t("agents.endpoint"), code(agent.endpoint, t("agents.endpoint"))),
		turns.length > 0 && section(t("agents.conversations"), conversationsOf(turns)),
	);
}

/** @param {string} params @param {() => Promise<void>} count redraws the figures */
function askForm(params, count) {
	const said = h("div", { "aria-live": "polite" });
	const made = form([{ name: "message", label: t("playground.question"), type: "textarea", required: true }], {
		submit: t("playground.ask"),
		async onSubmit({ message }) {
			const [{ response, usage }, request_id] = await callWithId("agents_run", { params, body: { message } });
			fill(
				said,
				h("p.bubble", String(message)),
				h("p.answer", response),
				smallPrint(t("agents.tokens", { n: usage.output_tokens })),
				ratingOf(params, request_id, count),
			);
			await count();
		},
	});
	return h("div", made, said);
}

/** @param {string} params @param {string | null} request_id of the rated answer @param {() => Promise<void>} count */
function ratingOf(params, request_id, count) {
	const rate = (/** @type {object} */ body) => async () => {
		await call("agents_feedback", { params, body: { ...body, request_id } });
		fill(box, h("span.small", t("agents.thanks")));
		await count();
	};
	const box = h("p.actions.small-buttons");
	const view = { fail: (/** @type {unknown} */ error) => announce(String(error)) };
	append(
		box,
		actButton(view, t("agents.good"), rate({ rating: 100 })),
		actButton(view, t("agents.bad"), rate({ rating: 0 })),
		actButton(view, t("agents.stepped"), rate({ rating: 0, intervention: true })),
	);
	return box;
}

/** @param {Agent} agent */
function figuresOf({ usage_count, last_used, performance_metrics }) {
	const { average_uncertainty, human_interventions, average_response_time, user_satisfaction_score } = performance_metrics;
	return facts([
		[t("agents.answers"), usage_count],
		[t("agents.used"), when(last_used, "short", t("state.never"))],
		[t("agents.uncertainty"), number(average_uncertainty === null ? null : 100 - average_uncertainty, 1)],
		[t("agents.interventions"), human_interventions],
		[t("agents.time"), average_response_time === null ? "–" : `${number(average_response_time, 2)} s`],
		[t("agents.satisfaction"), number(user_satisfaction_score, 1)],
	]);
}

/** Shows the newest turns first, but each question before its answer. @param {Replies["agents_conversations"]["turns"]} turns */
function conversationsOf(turns) {
	/** @type {(typeof turns)[]} */
	const asked = [];
	for (const turn of turns) {
		const latest = asked.at(-1);
		if (turn.role === "user" && latest?.length === 1 && latest[0]?.role === "assistant") latest.unshift(turn);
		else asked.push([turn]);
	}
	return entries(
		asked.map((pair) =>
			pair.map(({ role, content, at, session_id }) => [
				smallPrint(word("role", role), when(at, "medium"), session_id),
				h(role === "user" ? "p.bubble" : "p.answer", content),
			]),
		),
	);
}
