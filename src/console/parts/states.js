// Messages of a screen: loading, nothing there yet, something failed. Also notices, announcements and badges.
import { ApiError } from "../api/client.js";
import { said, t } from "../shell/language.js";
import { h, prose } from "./dom.js";

export const loading = () => h("p.loading", { role: "status" }, t("state.loading"));

/** Says what to do while there is nothing yet. @param {string} title @param {string} hint @param {...Child} actions */
export const empty = (title, hint, ...actions) =>
	h("div.empty", h("p.empty-title", title), h("p", prose(hint)), actions.some(Boolean) && h("p.actions", actions));

/** @param {unknown} error */
export function messageOf(error) {
	if (error instanceof ApiError) return said(`failure.${error.code}`, error.message);
	return error instanceof TypeError ? t("state.unreachable") : String(/** @type {Error} */ (error).message);
}

/** Shows the id of a request, which is also in the appliance's log. @param {string | undefined} id */
export const requestOf = (id) => id && h("p.small", `${t("state.request")} `, h("code", id));

/**
 * Explains a refusal by the API: the appliance's message, unless that is already shown, the hint, and the request id. Null for other
 * errors.
 * @param {unknown} error
 */
export function explained(error) {
	if (!(error instanceof ApiError)) return null;
	const { code, message, hint, requestId } = error;
	return [
		messageOf(error) !== message && h("p.small", message),
		hint && h("p.small", prose(said(`hint.${code}`, hint))),
		requestOf(requestId),
	];
}

/** An error with its hint and request id. @param {unknown} error @param {() => void} [retry] */
export function failure(error, retry) {
	return h(
		"div.notice.bad",
		{ role: "alert" },
		h("p", h("strong", messageOf(error))),
		explained(error) ?? h("p", prose(t("state.unreachable.hint"))),
		retry && h("p", h("button", { type: "button", onclick: retry }, t("action.retry"))),
	);
}

/** @param {"good" | "bad" | "warn" | "plain"} kind @param {...Child} children */
export const notice = (kind, ...children) =>
	h(
		"div",
		{ class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" },
		children.map((child) => (typeof child === "string" ? h("p", prose(child)) : child)),
	);

/** Shows a short message for six seconds. Screen readers speak it. @param {string} text */
export function announce(text) {
	const place = /** @type {HTMLElement} */ (document.getElementById("announcements"));
	const line = h("p", text);
	place.replaceChildren(line);
	setTimeout(() => line.remove(), 6_000);
}

/** @param {string} state a word of the API @param {string} [text] shown instead of the word */
export function badge(state, text = state) {
	return h("span", { class: `badge ${kinds[state] ?? "plain"}` }, text);
}

/** @type {Record<string, string>} */
const kinds = {
	...{ COMPLETED: "good", READY: "good", DEPLOYED: "good", REACHED: "good", ACTIVE: "good", gain: "good", ok: "good" },
	...{ live: "good", gained: "good", FAILED: "bad", lost: "bad", no_gain: "bad", degraded: "bad" },
	...{
		STOPPED: "warn",
		warn: "warn",
		error: "bad",
		PAUSED: "warn",
		BUDGET_SPENT: "warn",
		unproven: "warn",
		unmeasured: "warn",
		revoked: "warn",
	},
	...{ PROCESSING: "busy", PENDING: "busy", QUEUED: "busy", RUNNING: "busy", PLANNING: "busy", RECORDED: "busy" },
	...{ STOPPING: "busy", DEPLOYING: "busy", UNDEPLOYING: "busy" },
};
