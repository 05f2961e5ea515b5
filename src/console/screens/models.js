// Models: aligned and base ones, and which of them applications get.
import { alignedModels, call, callAll, orNull, upload } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { every, head, link, section } from "../parts/page.js";
import { bar } from "../parts/progress.js";
import { announce, badge, empty, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { bytes, number, t, when, word } from "../shell/language.js";
import { deployButton } from "./deploy.js";
import { showModel } from "./model.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Awaited<ReturnType<typeof alignedModels>>[number]} AlignedRow */
/** @typedef {Replies["models_base"]["base_models"][number]} Base */

/** @param {View} view */
export async function show(view) {
	if (view.id !== null) return showModel(view, view.id);
	const { place, signal } = view;
	const ask = async () => ({
		models: await alignedModels({ signal }),
		promoted: (await orNull(call("models_promotions", { query: { limit: 100 }, signal }), 403))?.promoted ?? [],
	});
	const bases = await callAll("models_base", (reply) => reply.base_models, { signal });
	const list = h("div", {});
	const draw = async () => {
		const { models, promoted } = await ask();
		fill(list, alignedOf(view, models, promoted));
		return models.some(({ deployment_status }) => deployment_status.endsWith("ING"));
	};
	fill(place, head(t("models.title"), { lead: t("models.lead") }), list, basesOf(bases), importOf(view));
	await draw();
	void every(signal, 3_000, async () => void (await draw()));
}

/** @param {View} view @param {AlignedRow[]} models @param {Replies["models_promotions"]["promoted"]} promoted */
function alignedOf(view, models, promoted) {
	if (models.length === 0)
		return empty(
			t("models.none"),
			t("models.none.hint"),
			h("a", { class: "button primary", href: "#/alignments/new" }, t("alignments.new")),
		);
	return section(
		t("models.aligned"),
		table(
			t("models.aligned"),
			[
				{ head: t("field.name"), cell: (one) => link(`#/models/${one.model_id}`, one.model_name) },
				{ head: t("field.status"), cell: (one) => badge(one.deployment_status, word("status", one.deployment_status)) },
				{
					head: t("models.line"),
					cell: (one) =>
						promoted
							.filter(({ model_id }) => model_id === one.model_id)
							.map(({ line }) => line)
							.join(", ") || "–",
				},
				{ head: t("field.base"), cell: (one) => one.base_model_name },
				{ head: t("field.created"), cell: (one) => when(one.created_at) },
				{ head: t("field.act"), cell: (one) => deployButton(view, one) },
			],
			models,
		),
	);
}

/** @param {Base[]} bases */
function basesOf(bases) {
	if (bases.length === 0) return section(t("models.bases"), empty(t("models.nobase"), t("models.nobase.hint")));
	return section(
		t("models.bases"),
		table(
			t("models.bases"),
			[
				{ head: t("field.name"), cell: (one) => link(`#/models/${one.model_id}`, one.model_name) },
				{ head: t("models.kind"), cell: (one) => word("kind", one.kind) },
				{ head: t("models.parameters"), cell: (one) => `${number(one.parameters / 1e6)} M`, numeric: true },
				{ head: t("field.size"), cell: (one) => bytes(one.bytes), numeric: true },
				{ head: t("models.memory"), cell: (one) => bytes(one.memory_bytes), numeric: true },
				{
					head: t("models.alignable"),
					cell: (one) => (one.can_be_aligned ? t("yes") : `${t("no")}: ${one.reason ?? ""}`),
				},
			],
			bases,
		),
		bases.filter(({ load_error }) => load_error !== null).map((one) => notice("bad", h("p", {}, `${one.model_name}: ${one.load_error}`))),
	);
}

/** @param {View} view */
function importOf(view) {
	const sent = h("div", {});
	const ofFile = form(
		[
			{
				name: "file",
				label: t("models.file"),
				type: "file",
				required: true,
				hint: t("models.file.hint"),
				more: { accept: ".gguf" },
			},
		],
		{
			submit: t("models.upload"),
			async onSubmit({ file }) {
				const [one] = /** @type {File[]} */ (file);
				if (!one) return;
				const shown = bar(one.name, 0);
				fill(sent, shown);
				try {
					await upload("models_upload", one, {
						signal: view.signal,
						onProgress: (share) => (shown.value = share),
						query: { name: one.name.replace(/\.gguf$/i, "") },
					});
				} finally {
					fill(sent);
				}
				announce(t("models.imported"));
				await view.reload();
			},
		},
	);
	const ofHub = form(
		[
			{
				name: "source",
				label: t("models.hub"),
				required: true,
				hint: t("models.hub.hint"),
				more: { pattern: "hf://.+", placeholder: "hf://organisation/name" },
			},
		],
		{
			submit: t("models.import"),
			async onSubmit(body) {
				await call("models_import", { body, signal: view.signal });
				announce(t("models.imported"));
				await view.reload();
			},
		},
	);
	return h(
		"details",
		{ class: "card" },
		h("summary", {}, t("models.add")),
		h("div", { class: "columns" }, h("div", {}, ofFile, sent), ofHub),
	);
}
