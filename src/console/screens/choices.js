// Options for forms: models, benchmarks, documents, and the presets and upstreams of this appliance. Also the names of things by
// their ids.
import { alignedModels, baseModels, call, callAll, callIfMay, orNull } from "../api/client.js";
import { session } from "../shell/session.js";
import { empty, h, link, mainLink, optionsOf, t } from "../ui.js";

/** @typedef {{ value: string, text: string, group?: string }[]} Options */

/** Returns the aligned models, then the base models that generate text. @returns {Promise<Options>} */
export async function modelOptions() {
	const [aligned, bases] = await Promise.all([alignedModels(), baseModels()]);
	return [
		...aligned.map((one) => ({ value: one.model_id, text: one.model_name, group: t("models.aligned") })),
		...bases.filter(({ kind }) => kind === "text").map((one) => ({ value: one.model_id, text: one.model_name, group: t("models.bases") })),
	];
}

/** Returns the benchmarks that are ready. @returns {Promise<Options>} */
export async function benchmarkOptions() {
	const all = await callAll("benchmarks_list", (reply) => reply.benchmarks);
	return all
		.filter(({ status }) => status === "READY")
		.map((one) => ({ value: one.benchmark_id, text: `${one.name} v${one.version} (${t("evaluation.n", { n: one.n_samples })})` }));
}

/** @returns {Promise<Options>} */
export const documentOptions = async () =>
	(await callAll("documents_list", (reply) => reply.documents)).map((one) => ({ value: one.document_id, text: one.name }));

/** Returns a field for choosing an upstream. Empty if none is configured. @param {string} name @returns {Promise<Field[]>} */
export async function upstreamField(name) {
	const { upstreams } = await call("system_choices");
	const options = [{ value: "", text: t("align.here") }, ...upstreams.map((one) => ({ value: one, text: one }))];
	return upstreams.length === 0 ? [] : [{ name, label: t("align.provider"), options, hint: t("align.provider.hint") }];
}

/** Returns a field for choosing one of the installed presets. @returns {Promise<Field>} */
export async function presetField() {
	const { presets } = await call("system_choices");
	const options = optionsOf(presets, "preset");
	return { name: "workflow_id", label: t("align.preset"), type: "select", value: "standard", hint: t("align.preset.hint"), options };
}

/**
 * Returns the text of the option with this value, or the value if there is no such option.
 * @param {Options} options @param {string} value
 */
export const nameIn = (options, value) => options.find((one) => one.value === value)?.text ?? value;

/**
 * For each kind of thing, the screen that shows it and a function that looks up its name.
 * @type {Record<string, [screen: string, name: (id: string) => Promise<string | undefined>]>}
 */
const things = {
	model: ["models", async (params) => (await callIfMay("models_get", { params }))?.model_name],
	alignment: ["alignments", async (params) => (await callIfMay("alignments_status", { params }))?.name],
	evaluation: ["evaluations", async (params) => (await callIfMay("evaluations_get", { params }))?.evaluation_name],
	benchmark: [
		"benchmarks",
		async (params) => {
			const one = await callIfMay("benchmarks_get", { params });
			return one ? `${one.name} v${one.version}` : undefined;
		},
	],
};

/**
 * Names by id that were looked up with this key, undefined if there is none. They are kept so that screens that are redrawn every few
 * seconds ask only once.
 * @type {Map<string, string | undefined>}
 */
const known = new Map();
session.addEventListener("change", () => known.clear());

/**
 * Returns the name of a thing. Undefined if it is gone, if its kind has no name, or if the key may not read it.
 * @param {string} id
 */
export async function nameOf(id) {
	const thing = things[id.split("_")[0] ?? ""];
	if (!known.has(id)) known.set(id, (thing && (await orNull(thing[1](id), 404))) ?? undefined);
	return known.get(id);
}

/** Returns names by id. Null ids are left out. @param {Iterable<string | null>} ids */
export async function namesOf(ids) {
	const all = [...new Set(ids)].filter((id) => id !== null);
	const names = await Promise.all(all.map(nameOf));
	return new Map(all.map((id, at) => [id, names[at]]));
}

/**
 * Returns a link to a thing, with its name as text. Without a name it returns the id, without an id a dash.
 * @param {string | null | undefined} id @param {string | undefined} name
 */
export function linkAs(id, name) {
	if (!id) return "–";
	return name === undefined ? h("code", id) : link(`#/${things[id.split("_")[0] ?? ""]?.[0]}/${id}`, name);
}

/** As `linkAs`, but looks up the name first. @param {string | null | undefined} id */
export const linkTo = async (id) => linkAs(id, id ? await nameOf(id) : undefined);

/** Replaces the ids in a text of the API by names. @param {string} text */
export async function withNames(text) {
	const names = await namesOf(text.match(/\b[a-z]+_[a-z0-9]{12,}/g) ?? []);
	return [...names].reduce((told, [id, name]) => told.replaceAll(id, name ?? id), text);
}

/** Says what to do while there is no suitable base model. @param {"models.nobase" | "align.nobase"} title */
export const noModel = (title) => empty(t(title), t("models.nobase.hint"), mainLink("#/models", t("step.base")));

export const noDocuments = () => empty(t("documents.none"), t("documents.none.hint"), mainLink("#/documents", t("documents.upload")));
