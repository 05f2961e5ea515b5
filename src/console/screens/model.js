// One model: deployment, promotion, download, and how far its confidence can be trusted.
import { ApiError, call, callAll, callIfMay, download, may, orNull } from "../api/client.js";
import {
	actButton,
	announce,
	bytes,
	deleteButton,
	details,
	entries,
	every,
	facts,
	fill,
	form,
	h,
	head,
	interval,
	link,
	list,
	notice,
	number,
	requestOf,
	section,
	statusBadge,
	t,
	table,
	when,
	word,
	yesNo,
} from "../ui.js";
import { linkAs, linkTo, namesOf, withNames } from "./choices.js";
import { confidenceOf } from "./confidence.js";
import { deployButton, rollbackButton } from "./deploy.js";
import { evaluationBadge } from "./evaluation.js";

/** @typedef {Extract<Replies["models_get"], { alignment_id: string }>} Aligned */
/** @typedef {Exclude<Replies["models_get"], { alignment_id: string }>} Base */

/** @param {View} view @param {string} id */
export async function showModel(view, id) {
	const { signal, place } = view;
	const params = id;
	const model = await call("models_get", { params });
	if (!("alignment_id" in model)) return showBase(view, /** @type {Base} */ (model));
	const aligned = /** @type {Aligned} */ (model);
	const [promotions, confidence] = await Promise.all([
		call("models_promotions", { query: { limit: 100 } }),
		orNull(callIfMay("models_confidence", { params }), 404),
	]);
	const channels = promotions.promoted.filter(({ model_id }) => model_id === aligned.model_id);
	const [about, promotion, evaluations] = await Promise.all([
		factsOf(aligned),
		promotionOf(view, aligned, promotions, channels),
		evaluationsOf(aligned),
	]);
	const downloads = /** @type {const} */ (["gguf", "peft"]).map((format) =>
		actButton(
			view,
			t(`model.${format}`),
			() => download("models_download", { params, query: { format } }, `${aligned.model_name}.${format === "gguf" ? "gguf" : "tar"}`),
			{ isOff: !aligned.downloadable[format] },
		),
	);
	fill(
		place,
		headOf(view, aligned, channels.length > 0),
		aligned.error !== null && notice("bad", aligned.error),
		section(t("field.about"), about, keepsFrom(aligned, channels.length > 0) && h("p.small", t("model.delete.off"))),
		promotion,
		evaluations,
		confidence && confidenceOf(confidence, signal),
		section(
			t("model.download"),
			h("p", t("model.download.lead")),
			h("p.actions", downloads),
			Object.values(aligned.downloadable).includes(false) && h("p.small", t("model.download.off")),
		),
	);
	if (aligned.deployment_status.endsWith("ING"))
		void every(signal, 1_500, async () => {
			const { status } = await call("models_deployment", { params });
			if (status !== "PROCESSING") await view.reload();
		});
}

/**
 * Whether the model cannot be deleted, because it is promoted or its status is not UNDEPLOYED.
 * @param {Aligned} model @param {boolean} isPromoted
 */
const keepsFrom = ({ deployment_status }, isPromoted) => isPromoted || deployment_status !== "UNDEPLOYED";

/** @param {View} view @param {Aligned} model @param {boolean} isPromoted */
function headOf(view, model, isPromoted) {
	const { model_id, model_name, deployment_status } = model;
	const isDeployed = deployment_status === "DEPLOYED";
	return head(model_name, {
		back: "models",
		actions: [
			statusBadge(deployment_status),
			isDeployed && may("inference_chat") && link(`#/playground?model=${model_id}`, t("model.try")),
			deployButton(view, model),
			deleteButton(view, "models_delete", model_name, t("model.delete.text"), { isOff: keepsFrom(model, isPromoted) }),
		],
	});
}

/** @param {Aligned} one */
async function factsOf(one) {
	const [alignment, benchmark] = await Promise.all([linkTo(one.alignment_id), linkTo(one.lineage.benchmark_id)]);
	return facts([
		[t("field.base"), link(`#/models/${one.base_model_id}`, one.base_model_name)],
		[t("field.alignment"), alignment],
		[t("align.preset"), word("preset", one.lineage.workflow_id)],
		[t("field.documents"), one.lineage.document_ids.length],
		[t("field.benchmark"), benchmark],
		[t("field.created"), when(one.created_at)],
		[t("model.requests"), one.usage.requests],
		[t("model.tokens"), one.usage.prompt_tokens + one.usage.completion_tokens],
		[t("model.context"), one.conversation.context_tokens],
		[t("field.id"), h("code", one.model_id)],
	]);
}

/** @param {View} view @param {Aligned} model @param {Replies["models_promotions"]} promotions @param {{ channel: string }[]} channels */
async function promotionOf(view, model, promotions, channels) {
	const refused = h("div", { "aria-live": "polite" });
	const params = model.model_id;
	const promote = form(
		[
			{ name: "channel", label: t("models.channel"), value: channels[0]?.channel ?? model.model_name, hint: t("model.channel.hint") },
			{ name: "reason", label: t("model.reason"), hint: t("model.reason.hint") },
		],
		{
			submit: t("model.promote"),
			async onSubmit(body) {
				fill(refused);
				try {
					const made = await call("models_promote", { params, body });
					announce(t("model.promoted", { channel: made.channel }));
					await view.reload();
				} catch (error) {
					if (!(error instanceof ApiError) || error.code !== "promotion_refused") throw error;
					fill(refused, await refusalOf(error));
				}
			},
		},
	);
	const here = channels.map(({ channel }) => [t("model.promoted", { channel }), " ", rollbackButton(view, model.model_id, channel)]);
	const history = promotions.promotions.filter((one) => one.model_id === model.model_id || one.replaced_model_id === model.model_id);
	return section(
		t("model.promotion"),
		h("p.soft", t("model.promotion.lead")),
		here.length > 0 && entries(here),
		promote,
		refused,
		history.length > 0 && details(t("model.history"), await historyOf(history)),
	);
}

/** Says why a promotion was refused, and lists each item that would be lost. @param {ApiError} error */
async function refusalOf({ details: told, requestId }) {
	const reasons = told.filter(({ type }) => type !== "lost_item");
	const items = told.filter(({ type }) => type === "lost_item");
	const lost = details(
		t("model.lost", { n: items.length }),
		entries(
			items.map(({ ctx }) => [
				h("strong", ctx?.text),
				facts([
					[t("evaluation.expected"), ctx?.expected],
					[t("model.before"), ctx?.former_answer],
					[t("model.now"), ctx?.answer],
				]),
			]),
		),
	);
	lost.open = true;
	return notice(
		"bad",
		h("p", h("strong", t("model.refused"))),
		list(await Promise.all(reasons.map(({ msg }) => withNames(msg)))),
		items.length > 0 && lost,
		h("p", t("model.refused.hint")),
		requestOf(requestId),
	);
}

/** @param {Replies["models_promotions"]["promotions"]} history */
async function historyOf(history) {
	const names = await namesOf(history.map((one) => one.replaced_model_id));
	return table(
		t("model.history"),
		[
			[t("field.at"), (one) => when(one.at), "when"],
			[t("field.act"), (one) => word("act", one.act)],
			[t("models.channel"), (one) => one.channel],
			[t("model.replaced"), (one) => linkAs(one.replaced_model_id, names.get(one.replaced_model_id ?? ""))],
			[t("model.reason"), (one) => one.reason],
		],
		history,
	);
}

/** @param {Aligned} model */
async function evaluationsOf({ evaluations, model_id }) {
	if (!may("evaluations_get")) return null;
	const [named, benchmarks] = await Promise.all([
		callAll("evaluations_list", (reply) => reply.evaluations, { query: { model_id } }),
		namesOf(evaluations.map((one) => one.benchmark_id)),
	]);
	const records = new Map(named.map((one) => [one.evaluation_id, one]));
	const rows = table(
		t("nav.evaluations"),
		[
			[t("field.name"), (one) => linkAs(one.evaluation_id, records.get(one.evaluation_id)?.evaluation_name)],
			[t("field.status"), (one) => evaluationBadge(records.get(one.evaluation_id) ?? one)],
			[t("field.score"), (one) => interval(one.result), "numeric"],
			[t("field.questions"), (one) => number(one.result?.n), "numeric"],
			[t("field.benchmark"), (one) => linkAs(one.benchmark_id, benchmarks.get(one.benchmark_id))],
		],
		evaluations,
	);
	return section(
		t("nav.evaluations"),
		evaluations.length > 0 ? [rows, h("p.small", t("field.scale"))] : h("p.soft", t("model.unevaluated")),
		h("p", link(`#/evaluations/new?model=${model_id}`, t("evaluations.new"))),
	);
}

/** @param {Base} base */
export const alignable = ({ can_be_aligned, reason }) => [yesNo(can_be_aligned), reason].filter(Boolean).join(": ");

/** @param {View} view @param {Base} model */
function showBase(view, model) {
	fill(
		view.place,
		head(model.model_name, {
			back: "models",
			actions: [
				model.kind === "text" && may("inference_chat") && link(`#/playground?model=${model.model_id}`, t("model.try")),
				deleteButton(view, "models_delete", model.model_name, t("model.delete.base"), { isOff: !may("models_upload") }),
			],
		}),
		model.load_error !== null && notice("bad", model.load_error),
		section(
			t("field.about"),
			facts([
				[t("models.kind"), word("kind", model.kind)],
				[t("model.architecture"), model.architecture],
				[t("models.parameters"), model.parameters],
				[t("model.context"), model.context_length],
				[t("field.size"), bytes(model.bytes)],
				[t("models.memory"), bytes(model.memory_bytes)],
				[t("models.alignable"), alignable(model)],
				[t("model.license"), model.license],
				["SHA-256", h("code", `${model.sha256.slice(0, 16)}…`)],
				[t("field.id"), h("code", model.model_id)],
			]),
		),
	);
}
