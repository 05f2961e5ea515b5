// Models: aligned models with their channels, which applications use, and base models.
import { baseModels, call, may, orNull, upload } from "../api/client.js";
import {
	announce,
	bar,
	bytes,
	details,
	empty,
	fill,
	form,
	h,
	head,
	inHand,
	link,
	mainLink,
	notice,
	number,
	pagedTable,
	section,
	statusBadge,
	t,
	when,
	word,
} from "../ui.js";
import { deployButton, rollbackButton, withErrors } from "./deploy.js";
import { alignable, showModel } from "./model.js";

/** @typedef {Replies["models_base"]["base_models"][number]} Base */

/** @param {View} view */
export async function show(view) {
	if (view.id !== null) return showModel(view, view.id);
	const { place } = view;
	const bases = await baseModels();
	fill(
		place,
		head(t("nav.models"), { lead: t("models.lead") }),
		await alignedOf(view, bases),
		await basesOf(view, bases),
		may("models_upload") && importOf(view, bases.length === 0),
	);
}

/** @param {View} view @param {Base[]} bases */
async function alignedOf(view, bases) {
	const { element, isEmpty } = await pagedTable(
		view,
		t("models.aligned"),
		[
			[t("field.name"), (one) => link(`#/models/${one.model_id}`, one.model_name)],
			[t("field.status"), (one) => [statusBadge(one.deployment_status), one.error && h("p.small", one.error)]],
			[t("models.channel"), (one) => one.channels.join(", ") || t("models.nochannel")],
			[t("field.base"), (one) => one.base_model_name],
			[t("field.created"), (one) => when(one.created_at), "when"],
			[
				t("field.acts"),
				(one) => {
					const rollbacks = one.channels.map((/** @type {string} */ channel) => rollbackButton(view, one.model_id, channel));
					return h("span.actions.small-buttons", deployButton(view, one), rollbacks);
				},
			],
		],
		async (query) => {
			const [reply, { promoted }] = await Promise.all([
				// The API answers 404 if there are no aligned models.
				orNull(call("models_aligned", { query }), 404),
				call("models_promotions", { query: { limit: 1 } }),
			]);
			const channelsOf = (/** @type {string} */ id) => promoted.filter(({ model_id }) => model_id === id).map(({ channel }) => channel);
			const rows = await withErrors(reply?.domain_aligned_models ?? []);
			return { rows: rows.map((one) => ({ ...one, channels: channelsOf(one.model_id) })), total: reply?.total };
		},
		{ isLive: ({ deployment_status }) => deployment_status.endsWith("ING") },
	);
	// Without a base model nothing can be aligned, so the link is left out until there is one.
	const begin = bases.some(({ can_be_aligned }) => can_be_aligned) && mainLink("#/alignments/new", t("alignments.new"));
	return section(t("models.aligned"), isEmpty() ? empty(t("models.none"), t("models.none.hint"), begin) : element);
}

/** @param {View} view @param {Base[]} bases */
async function basesOf(view, bases) {
	if (bases.length === 0) return section(t("models.bases"), empty(t("models.nobase"), t("models.nobase.hint")));
	const { element } = await pagedTable(
		view,
		t("models.bases"),
		[
			[t("field.name"), (one) => link(`#/models/${one.model_id}`, one.model_name)],
			[t("models.kind"), (one) => word("kind", one.kind)],
			[
				t("models.parameters"),
				({ parameters: n }) => (n < 1e6 ? n : t("models.million", { n: number(n / 1e6, n < 1e7 ? 1 : 0) })),
				"numeric",
			],
			[t("field.size"), (one) => bytes(one.bytes), "numeric"],
			[t("models.memory"), (one) => bytes(one.memory_bytes), "numeric"],
			[t("models.alignable"), alignable],
		],
		inHand(bases),
		{ name: "bases" },
	);
	const broken = bases.filter(({ load_error }) => load_error !== null);
	return section(
		t("models.bases"),
		element,
		broken.map((one) => notice("bad", `${one.model_name}: ${one.load_error}`)),
	);
}

/** @param {View} view @param {boolean} isOpen */
function importOf(view, isOpen) {
	const sent = h("div");
	const imported = async () => {
		announce(t("models.imported"));
		await view.reload();
	};
	const file = { name: "file", label: t("models.file"), required: true, hint: t("models.file.hint") };
	const ofFile = form([{ ...file, type: "file", more: { accept: ".gguf" } }], {
		submit: t("models.upload"),
		async onSubmit({ file }) {
			const [one] = /** @type {File[]} */ (file);
			if (!one) return;
			const shown = bar(one.name, 0);
			fill(sent, shown);
			const query = { name: one.name.replace(/\.gguf$/i, "") };
			try {
				await upload("models_upload", one, { onProgress: (share) => (shown.value = share), query });
			} finally {
				fill(sent);
			}
			await imported();
		},
	});
	const source = { name: "source", label: t("models.hub"), required: true, hint: t("models.hub.hint") };
	const ofHub = form([{ ...source, more: { pattern: "hf://.+" } }], {
		submit: t("models.import"),
		async onSubmit(body) {
			await call("models_import", { body });
			await imported();
		},
	});
	const made = details(t("step.base"), h("div.columns", h("div", ofFile, sent), ofHub));
	made.open = isOpen;
	return made;
}
