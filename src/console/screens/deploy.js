// Puts a model into service, or takes it out.
import { call } from "../api/client.js";
import { actButton } from "../parts/page.js";
import { t } from "../shell/language.js";

/** @import { View } from "../shell/router.js" */

/** @param {View} view @param {{ model_id: string, deployment_status: string }} model */
export function deployButton(view, { model_id, deployment_status }) {
	const isDeployed = deployment_status === "DEPLOYED";
	const act = async () => {
		await call(isDeployed ? "models_undeploy" : "models_deploy", { params: { model_id } });
		await view.reload();
	};
	const text = isDeployed ? t("models.undeploy") : t("models.deploy");
	return actButton(text, act, { onError: view.fail, disabled: deployment_status.endsWith("ING") });
}
