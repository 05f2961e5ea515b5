// Buttons that deploy a model, undeploy it, and roll a channel back to the model before it.
import { call, orNull } from "../api/client.js";
import { actButton, dangerButton, t } from "../ui.js";

/** @param {View} view @param {{ model_id: string, deployment_status: string }} model */
export function deployButton(view, { model_id, deployment_status }) {
	const isDeployed = deployment_status === "DEPLOYED";
	const act = () => call(isDeployed ? "models_undeploy" : "models_deploy", { params: model_id }).then(view.reload);
	return actButton(view, t(isDeployed ? "models.undeploy" : "models.deploy"), act, { isOff: deployment_status.endsWith("ING") });
}

/**
 * Adds to each undeployed model why its last deployment failed, which lists of models do not have.
 * @template {{ model_id: string, deployment_status: string }} T
 * @param {readonly T[]} models
 */
export const withErrors = (models) =>
	Promise.all(
		models.map(async (one) => {
			const params = one.model_id;
			const record = one.deployment_status === "UNDEPLOYED" ? await orNull(call("models_get", { params }), 404) : null;
			return { ...one, error: /** @type {{ error?: string | null } | null} */ (record)?.error };
		}),
	);

/** @param {View} view @param {string} model_id @param {string} channel */
export const rollbackButton = (view, model_id, channel) =>
	dangerButton(view, t("model.rollback.act"), t("model.rollback", { channel }), t("model.rollback.text"), () =>
		call("models_rollback", { params: model_id, body: { channel } }).then(view.reload),
	);
