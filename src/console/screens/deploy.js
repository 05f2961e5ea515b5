// Buttons that deploy a model, undeploy it, and roll a channel back to the model before it.
import { call } from "../api/client.js";
import { actButton, dangerButton, t } from "../ui.js";

/** @param {View} view @param {{ model_id: string, deployment_status: string }} model */
export function deployButton(view, { model_id, deployment_status }) {
	const isDeployed = deployment_status === "DEPLOYED";
	const act = () => call(isDeployed ? "models_undeploy" : "models_deploy", { params: model_id }).then(view.reload);
	return actButton(view, t(isDeployed ? "models.undeploy" : "models.deploy"), act, { isOff: deployment_status.endsWith("ING") });
}

/** @param {View} view @param {string} model_id @param {string} channel */
export const rollbackButton = (view, model_id, channel) =>
	dangerButton(view, t("model.rollback.act"), t("model.rollback", { channel }), t("model.rollback.text"), () =>
		call("models_rollback", { params: model_id, body: { channel } }).then(view.reload),
	);
