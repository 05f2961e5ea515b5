// Agents: a model with a system prompt of its own; asked, rated, and changed here.
import { call, callAll, onceKey } from "../api/client.js";
import { confirmAct } from "../parts/dialog.js";
import { append, fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { actButton, code, facts, head, link, section } from "../parts/page.js";
import { announce, badge, empty } from "../parts/states.js";
import { table } from "../parts/table.js";
import { number, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { modelOptions } from "./choices.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { Field } from "../parts/form.js" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["agents_get"]["data"]} Agent */

/** @param {View} view */
export async function show(view) {
	const { signal, place, id } = view;
	if (id === "new") return showNew(view);
	if (id !== null) return showAgent(view, id);
	const agents = await callAll("agents_list", (reply) => reply.data, { signal });
	const begin = h("a", { class: "button primary", href: "#/agents/new" }, t("agents.new"));
	fill(
		place,
		head(t("agents.title"), { lead: t("agents.lead"), actions: agents.length > 0 ? [begin] : [] }),
		agents.length === 0 ? empty(t("agents.none"), t("agents.none.hint"), begin) : section(t("agents.all"), listOf(agents)),
	);
}

/** @param {Agent[]} agents */
const listOf = (agents) =>
	table(
		t("agents.all"),
		[
			{ head: t("field.name"), cell: (one) => link(`#/agents/${one.id}`, one.name) },
			{ head: t("field.status"), cell: (one) => badge(one.status, word("status", one.status)) },
			{ head: t("field.model"), cell: (one) => link(`#/models/${one.base_model}`, one.base_model_name) },
			{ head: t("agents.answers"), cell: (one) => number(one.usage_count), numeric: true },
			{ head: t("agents.used"), cell: (one) => when(one.last_used) },
		],
		agents,
	);

/** @param {AbortSignal} signal @param {Agent} [agent] @returns {Promise<Field[]>} */
async function fieldsOf(signal, agent) {
	const models = await modelOptions(signal);
	const current = agent?.base_model ?? models[0]?.value ?? "";
	return [
		{ name: "name", label: t("field.name"), required: true, value: agent?.name ?? "", more: { maxlength: 200 } },
		{ name: "base_model", label: t("field.model"), type: "select", options: models, value: current },
		{ name: "system_prompt", label: t("playground.system"), type: "textarea", value: agent?.system_prompt ?? "" },
		{
			name: "temperature",
			label: t("playground.temperature"),
			type: "number",
			value: agent?.temperature ?? 1,
			more: { min: 0, max: 2, step: 0.1 },
		},
		{ name: "description", label: t("field.description"), value: agent?.description ?? "" },
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
async function showNew({ signal, place }) {
	const key = onceKey();
	const made = form(await fieldsOf(signal), {
		submit: t("agents.make"),
		async onSubmit(body) {
			const { data } = await call("agents_create", { body, signal, onceKey: key });
			go(`#/agents/${data.id}`);
		},
	});
	fill(place, head(t("agents.new"), { back: { href: "#/agents", text: t("nav.agents") } }), section(t("agents.what"), made));
}

/** @param {View} view @param {string} id */
async function showAgent(view, id) {
	const { signal, place } = view;
	const params = { agent_id: id };
	const { data: agent } = await call("agents_get", { params, signal });
	const { turns } = await call("agents_conversations", { params, query: { limit: 50 }, signal });
	const remove = async () => {
		if (!(await confirmAct(t("agents.delete", { name: agent.name }), t("agents.delete.text"), t("action.delete")))) return;
		await call("agents_delete", { params });
		go("#/agents");
	};
	const change = form(await fieldsOf(signal, agent), {
		submit: t("action.save"),
		async onSubmit(values) {
			// A field that was emptied is sent as empty; one left out would stay.
			const body = { ...values, system_prompt: values.system_prompt ?? "", description: values.description ?? "" };
			await call("agents_update", { params, body, signal });
			announce(t("action.saved"));
			await view.reload();
		},
	});
	fill(
		place,
		head(agent.name, {
			lead: agent.description,
			back: { href: "#/agents", text: t("nav.agents") },
			actions: [
				badge(agent.status, word("status", agent.status)),
				actButton(t("action.delete"), remove, { kind: "danger", onError: view.fail }),
			],
		}),
		h("div", { class: "columns" }, section(t("agents.ask"), askForm(view, params)), section(t("agents.figures"), figuresOf(agent))),
		section(t("agents.what"), change),
		section(t("agents.endpoint"), code(agent.endpoint, t("agents.endpoint"))),
		turns.length > 0 && section(t("agents.conversations"), conversationsOf(turns)),
	);
}

/** @param {View} view @param {{ agent_id: string }} params */
function askForm({ signal }, params) {
	const said = h("div", { "aria-live": "polite" });
	const made = form([{ name: "message", label: t("playground.question"), type: "textarea", required: true }], {
		submit: t("playground.ask"),
		async onSubmit({ message }) {
			const { response, usage } = await call("agents_run", { params, body: { message }, signal });
			fill(
				said,
				h("p", { class: "bubble" }, String(message)),
				h("p", { class: "answer" }, response),
				h("p", { class: "small" }, t("agents.tokens", { n: usage.total_tokens })),
				ratingOf(params),
			);
		},
	});
	return h("div", {}, made, said);
}

/** @param {{ agent_id: string }} params */
function ratingOf(params) {
	const rate = (/** @type {object} */ body) => async () => {
		await call("agents_feedback", { params, body });
		fill(box, t("agents.thanks"));
	};
	const box = h("p", { class: "actions small-buttons" });
	const options = { onError: (/** @type {unknown} */ error) => announce(String(error)) };
	append(
		box,
		actButton(t("agents.good"), rate({ rating: 100 }), options),
		actButton(t("agents.bad"), rate({ rating: 0 }), options),
		actButton(t("agents.stepped"), rate({ rating: 0, intervention: true }), options),
	);
	return box;
}

/** @param {Agent} agent */
function figuresOf({ usage_count, last_used, performance_metrics }) {
	const { average_uncertainty, human_interventions, average_response_time, user_satisfaction_score } = performance_metrics;
	const figure = (/** @type {number | null} */ value, digits = 1) => (value === null ? "–" : number(value, digits));
	return facts([
		[t("agents.answers"), number(usage_count)],
		[t("agents.used"), when(last_used)],
		[t("agents.uncertainty"), figure(average_uncertainty)],
		[t("agents.interventions"), figure(human_interventions, 0)],
		[t("agents.time"), average_response_time === null ? "–" : `${number(average_response_time, 2)} s`],
		[t("agents.satisfaction"), figure(user_satisfaction_score)],
	]);
}

/** @param {Replies["agents_conversations"]["turns"]} turns */
const conversationsOf = (turns) =>
	h(
		"ul",
		{ class: "list" },
		turns.map(({ role, content, at, session_id }) =>
			h(
				"li",
				{},
				h("p", { class: "small" }, `${word("role", role)} · ${when(at)}${session_id ? ` · ${session_id}` : ""}`),
				h("p", { class: "answer" }, content),
			),
		),
	);
