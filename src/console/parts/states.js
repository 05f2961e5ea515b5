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
		retry && h("p", h("button", { onclick: retry }, t("action.retry"))),
	);
}

/** @param {"good" | "bad" | "warn" | "plain"} kind @param {...Child} children */
export const notice = (kind, ...children) =>
	h(
		"div",
		{ class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" },
		children.map((child) => (typeof child === "string" ? h("p", prose(child)) : child)),
	);

/** Shows a short message for `ms`. Screen readers speak it. @param {string} text @param {number} [ms] */
export function announce(text, ms = 6_000) {
	const place = /** @type {HTMLElement} */ (document.getElementById("announcements"));
	const line = h("p", text);
	place.replaceChildren(line);
	setTimeout(() => line.remove(), ms);
	return line;
}

/** @param {string} state a word of the API @param {string} [text] shown instead of the word */
export function badge(state, text = state) {
	const [kind = "plain"] = Object.entries(kinds).find(([, states]) => states.split(" ").includes(state)) ?? [];
	return h("span", { class: `badge ${kind}` }, text);
}

/** The states of each kind of badge. */
const kinds = {
	good: "COMPLETED READY DEPLOYED REACHED ACTIVE gain ok live gained",
	bad: "FAILED error lost no_gain degraded",
	warn: "STOPPED PAUSED BUDGET_SPENT warn unproven unmeasured revoked",
	busy: "PROCESSING PENDING QUEUED RUNNING PLANNING RECORDED STOPPING DEPLOYING UNDEPLOYING",
};
