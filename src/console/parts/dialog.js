// Questions that stop the user for a moment. The browser's dialog keeps the focus inside, and Escape leaves it.
import { t } from "../shell/language.js";
import { h, newId } from "./dom.js";

/** @import { Child } from "./dom.js" */

/** @param {string} title @param {...Child} children */
export function openDialog(title, ...children) {
	const id = newId();
	const close = h("button", { type: "button", onclick: () => dialog.close() }, t("action.close"));
	const dialog = h(
		"dialog",
		{ "aria-labelledby": id },
		h("h2", { id }, title),
		h("div", { class: "dialog-body" }, children),
		h("p", { class: "actions" }, close),
	);
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}

/**
 * @param {string} title
 * @param {string} text what will happen
 * @param {string} act
 * @returns {Promise<boolean>}
 */
export function confirmAct(title, text, act) {
	const id = newId();
	const { promise, resolve } = Promise.withResolvers();
	const answer = (/** @type {boolean} */ said) => () => {
		resolve(said);
		dialog.close();
	};
	const dialog = h(
		"dialog",
		{ "aria-labelledby": id },
		h("h2", { id }, title),
		h("p", {}, text),
		h(
			"p",
			{ class: "actions" },
			h("button", { type: "button", class: "danger", onclick: answer(true) }, act),
			h("button", { type: "button", onclick: answer(false) }, t("action.cancel")),
		),
	);
	dialog.addEventListener("close", () => {
		resolve(false);
		dialog.remove();
	});
	document.body.append(dialog);
	dialog.showModal();
	return promise;
}
