// One model: deployment, promotion, download, and how far its confidence can be trusted.
import { ApiError, call, download, orNull } from "../api/client.js";
import { confirmAct } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { actButton, every, facts, head, link, section } from "../parts/page.js";
import { announce, badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { bytes, interval, number, t, when, word } from "../shell/language.js";
import { go } from "../shell/router.js";
import { confidenceOf } from "./confidence.js";
import { deployButton } from "./deploy.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Extract<Replies["models_get"], { alignment_id: string }>} Aligned */
/** @typedef {Exclude<Replies["models_get"], { alignment_id: string }>} Base */

/** @param {View} view @param {string} id */
export async function showModel(view, id) {
	const { signal, place } = view;
	const params = { model_id: id };
	const model = await call("models_get", { params, signal });
	if (!("alignment_id" in model)) return showBase(view, /** @type {Base} */ (model));
	const aligned = /** @type {Aligned} */ (model);
	const [promotions, confidence] = await Promise.all([
		orNull(call("models_promotions", { query: { limit: 100 }, signal }), 403),
		orNull(call("models_confidence", { params, signal }), 403, 404),
	]);
	const lines = (promotions?.promoted ?? []).filter(({ model_id }) => model_id === aligned.model_id);
	fill(
		place,
		headOf(view, aligned, lines.length > 0),
		aligned.error !== null && notice("bad", h("p", {}, aligned.error)),
		section(t("model.about"), factsOf(aligned)),
		promotionOf(view, aligned, promotions, lines),
		evaluationsOf(aligned),
		confidence && confidenceOf(confidence, signal),
		section(
			t("model.download"),
			h("p", {}, t("model.download.lead")),
			h(
				"p",
				{ class: "actions" },
				/** @type {const} */ (["gguf", "peft"]).map((format) =>
					actButton(
						t(`model.${format}`),
						() => download("models_download", { params, query: { format } }, `${aligned.model_name}.${format === "gguf" ? "gguf" : "tar"}`),
						{ onError: view.fail, disabled: !aligned.downloadable[format] },
					),
				),
			),
		),
	);
	if (aligned.deployment_status.endsWith("ING"))
		void every(signal, 1_500, async () => {
			const { status } = await call("models_deployment", { params, signal });
			if (status === "PROCESSING") return true;
			await view.reload();
			return false;
		});
}

/** @param {View} view @param {Aligned} model @param {boolean} isPromoted */
function headOf(view, model, isPromoted) {
	const remove = async () => {
		if (!(await confirmAct(t("model.delete", { name: model.model_name }), t("model.delete.text"), t("action.delete")))) return;
		await call("models_delete", { params: { model_id: model.model_id } });
		go("#/models");
	};
	return head(model.model_name, {
		back: { href: "#/models", text: t("nav.models") },
		actions: [
			badge(model.deployment_status, word("status", model.deployment_status)),
			model.deployment_status === "DEPLOYED" && link(`#/playground?model=${model.model_id}`, t("model.try")),
			deployButton(view, model),
			actButton(t("action.delete"), remove, {
				kind: "danger",
				onError: view.fail,
				disabled: isPromoted || model.deployment_status !== "UNDEPLOYED",
			}),
		],
	});
}

/** @param {Aligned} model */
function factsOf({ model_id, base_model_id, base_model_name, alignment_id, created_at, usage, lineage, conversation }) {
	return facts([
		[t("field.id"), h("code", {}, model_id)],
		[t("field.base"), link(`#/models/${base_model_id}`, base_model_name)],
		[t("field.alignment"), link(`#/alignments/${alignment_id}`, t("action.open"))],
		[t("align.preset"), word("preset", lineage.workflow_id)],
		[t("field.documents"), number(lineage.document_ids.length)],
		[t("field.benchmark"), lineage.benchmark_id ? link(`#/benchmarks/${lineage.benchmark_id}`, t("action.open")) : "–"],
		[t("field.created"), when(created_at)],
		[t("model.requests"), number(usage.requests)],
		[t("model.tokens"), number(usage.prompt_tokens + usage.completion_tokens)],
		[t("model.context"), number(conversation.context_tokens)],
	]);
}

/** @param {View} view @param {Aligned} model @param {Replies["models_promotions"] | null} promotions @param {{ line: string }[]} lines */
function promotionOf(view, model, promotions, lines) {
	if (promotions === null) return null;
	const refused = h("div", { "aria-live": "polite" });
	const params = { model_id: model.model_id };
	const promote = form(
		[
			{ name: "line", label: t("model.line"), value: lines[0]?.line ?? model.model_name, hint: t("model.line.hint") },
			{ name: "reason", label: t("model.reason"), hint: t("model.reason.hint") },
		],
		{
			submit: t("model.promote"),
			async onSubmit(body) {
				fill(refused);
				try {
					const made = await call("models_promote", { params, body });
					announce(t("model.promoted", { line: made.line }));
					await view.reload();
				} catch (error) {
					if (!(error instanceof ApiError) || error.code !== "promotion_refused") throw error;
					fill(refused, refusalOf(error));
				}
			},
		},
	);
	const rollBack = (/** @type {string} */ line) => async () => {
		if (!(await confirmAct(t("model.rollback", { line }), t("model.rollback.text"), t("model.rollback.act")))) return;
		await call("models_rollback", { params, body: { line } });
		await view.reload();
	};
	const here = lines.map(({ line }) =>
		h(
			"li",
			{},
			t("model.promotedon", { line }),
			" ",
			actButton(t("model.rollback.act"), rollBack(line), { kind: "danger", onError: view.fail }),
		),
	);
	const history = promotions.promotions.filter((one) => one.model_id === model.model_id || one.replaced_model_id === model.model_id);
	return section(
		t("model.promotion"),
		h("p", { class: "soft" }, t("model.promotion.lead")),
		here.length > 0 && h("ul", { class: "list" }, here),
		promote,
		refused,
		history.length > 0 && h("details", {}, h("summary", {}, t("model.history")), historyOf(history)),
	);
}

/** Why it was refused, and each item that would be lost. @param {ApiError} error */
function refusalOf({ details, hint, requestId }) {
	const reasons = details.filter(({ type }) => type !== "lost_item");
	const items = details.filter(({ type }) => type === "lost_item");
	return notice(
		"bad",
		h("p", {}, h("strong", {}, t("model.refused"))),
		h(
			"ul",
			{},
			reasons.map(({ msg }) => h("li", {}, msg)),
		),
		items.length > 0 &&
			h(
				"details",
				{ open: true },
				h("summary", {}, t("model.lost", { n: items.length })),
				h(
					"ul",
					{ class: "list" },
					items.map(({ msg }) =>
						h(
							"li",
							{},
							msg.split(" | ").map((one, at) => (at === 0 ? one : [h("br"), h("span", { class: "small" }, one)])),
						),
					),
				),
			),
		h("p", {}, hint),
		h("p", { class: "small" }, `${t("state.request")} `, h("code", {}, requestId)),
	);
}

/** @param {Replies["models_promotions"]["promotions"]} history */
const historyOf = (history) =>
	table(
		t("model.history"),
		[
			{ head: t("field.at"), cell: (one) => when(one.at) },
			{ head: t("field.act"), cell: (one) => word("act", one.act) },
			{ head: t("models.line"), cell: (one) => one.line },
			{
				head: t("model.replaced"),
				cell: (one) => (one.replaced_model_id ? link(`#/models/${one.replaced_model_id}`, t("action.open")) : "–"),
			},
			{ head: t("model.reason"), cell: (one) => one.reason ?? "–" },
		],
		history,
	);

/** @param {Aligned} model */
function evaluationsOf({ evaluations, model_id }) {
	const begin = h("p", {}, link(`#/evaluations/new?model=${model_id}`, t("evaluations.new")));
	if (evaluations.length === 0) return section(t("nav.evaluations"), h("p", { class: "soft" }, t("model.unevaluated")), begin);
	return section(
		t("nav.evaluations"),
		table(
			t("nav.evaluations"),
			[
				{
					head: t("field.status"),
					cell: (one) => link(`#/evaluations/${one.evaluation_id}`, word("status", one.status)),
				},
				{ head: t("field.score"), cell: (one) => interval(one.result), numeric: true },
				{ head: t("field.questions"), cell: (one) => (one.result ? number(one.result.n) : "–"), numeric: true },
				{ head: t("field.benchmark"), cell: (one) => link(`#/benchmarks/${one.benchmark_id}`, t("action.open")) },
			],
			evaluations,
		),
		begin,
	);
}

/** @param {View} view @param {Base} model */
function showBase(view, model) {
	const remove = async () => {
		if (!(await confirmAct(t("model.delete", { name: model.model_name }), t("model.delete.base"), t("action.delete")))) return;
		await call("models_delete", { params: { model_id: model.model_id } });
		go("#/models");
	};
	fill(
		view.place,
		head(model.model_name, {
			back: { href: "#/models", text: t("nav.models") },
			actions: [
				model.kind === "text" && link(`#/playground?model=${model.model_id}`, t("model.try")),
				actButton(t("action.delete"), remove, { kind: "danger", onError: view.fail }),
			],
		}),
		model.load_error !== null && notice("bad", h("p", {}, model.load_error)),
		section(
			t("model.about"),
			facts([
				[t("field.id"), h("code", {}, model.model_id)],
				[t("models.kind"), word("kind", model.kind)],
				[t("model.architecture"), model.architecture],
				[t("models.parameters"), number(model.parameters)],
				[t("model.context"), number(model.context_length)],
				[t("field.size"), bytes(model.bytes)],
				[t("models.memory"), bytes(model.memory_bytes)],
				[t("models.alignable"), model.can_be_aligned ? t("yes") : `${t("no")}: ${model.reason ?? ""}`],
				[t("model.license"), model.license ?? "–"],
				["SHA-256", h("code", {}, model.sha256.slice(0, 16))],
			]),
		),
	);
}
