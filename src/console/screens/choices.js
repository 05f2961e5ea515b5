// What forms let one choose from: models and benchmarks by their names, presets and upstreams of this appliance.
import { alignedModels, baseModels, call, callAll } from "../api/client.js";
import { number, optionsOf, t } from "../ui.js";

/** @import { Field } from "../ui.js" */
/** @typedef {{ value: string, text: string }[]} Options */

/** Aligned models first, then the bases that answer. @returns {Promise<Options>} */
export async function modelOptions() {
	const [aligned, bases] = await Promise.all([alignedModels(), baseModels()]);
	return [
		...aligned.map((one) => ({ value: one.model_id, text: `${one.model_name} (${t("field.aligned")})` })),
		...bases.filter(({ kind }) => kind === "text").map((one) => ({ value: one.model_id, text: `${one.model_name} (${t("field.base")})` })),
	];
}

/** Benchmarks that are ready. @returns {Promise<Options>} */
export async function benchmarkOptions() {
	const all = await callAll("benchmarks_list", (reply) => reply.benchmarks);
	return all
		.filter(({ status }) => status === "READY")
		.map((one) => ({ value: one.benchmark_id, text: `${one.name} v${one.version} (${number(one.n_samples)})` }));
}

/** @returns {Promise<Options>} */
export const documentOptions = async () =>
	(await callAll("documents_list", (reply) => reply.documents)).map((one) => ({ value: one.document_id, text: one.name }));

/** A field for a configured upstream; none where none is configured. @param {string} name @returns {Promise<Field[]>} */
export async function upstreamField(name) {
	const { upstreams } = await call("system_choices");
	const options = [{ value: "", text: t("align.here") }, ...upstreams.map((one) => ({ value: one, text: one }))];
	return upstreams.length === 0 ? [] : [{ name, label: t("align.provider"), options, hint: t("align.provider.hint") }];
}

/** A field for the preset, with those that are installed. @returns {Promise<Field>} */
export async function presetField() {
	const { presets } = await call("system_choices");
	const options = optionsOf(presets, "preset");
	return { name: "workflow_id", label: t("align.preset"), type: "select", value: "standard", hint: t("align.preset.hint"), options };
}

/** The text of a value, or the value where it is gone. @param {Options} options @param {string} value */
export const nameIn = (options, value) => options.find((one) => one.value === value)?.text ?? value;
