// What forms let one choose from: models and benchmarks, by their names.
import { alignedModels, callAll, orNull } from "../api/client.js";
import { number, t } from "../shell/language.js";

/** @typedef {{ value: string, text: string }[]} Options */

/** Aligned models first, then the bases that answer. @param {AbortSignal} signal @returns {Promise<Options>} */
export async function modelOptions(signal) {
	const [aligned, bases] = await Promise.all([
		alignedModels({ signal }),
		orNull(
			callAll("models_base", (reply) => reply.base_models, { signal }),
			403,
		),
	]);
	return [
		...aligned.map((one) => ({ value: one.model_id, text: `${one.model_name} (${t("field.aligned")})` })),
		...(bases ?? [])
			.filter(({ kind }) => kind === "text")
			.map((one) => ({ value: one.model_id, text: `${one.model_name} (${t("field.base")})` })),
	];
}

/** @param {AbortSignal} signal @returns {Promise<Options>} */
export async function benchmarkOptions(signal) {
	const all =
		(await orNull(
			callAll("benchmarks_list", (reply) => reply.benchmarks, { signal }),
			403,
		)) ?? [];
	return all
		.filter(({ status }) => status === "READY")
		.map((one) => ({ value: one.benchmark_id, text: `${one.name} v${one.version} (${number(one.n_samples)})` }));
}

/** The text of a value, or the value where it is gone. @param {Options} options @param {string} value */
export const nameIn = (options, value) => options.find((one) => one.value === value)?.text ?? value;
