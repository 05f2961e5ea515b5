// Modal dialogs. The browser's dialog element keeps the focus inside, closes on Escape, and returns the focus to where it was.
import { call } from "../api/client.js";
import { t } from "../shell/language.js";
import { h, newId } from "./dom.js";
import { actButton } from "./page.js";

/** @param {string} title @param {Child} body @param {Child[]} [actions] beside the close button @param {string} [close] */
export function openDialog(title, body, actions = [], close = t("action.close")) {
	const id = newId();
	const dialog = h(
		"dialog",
		{ "aria-labelledby": id },
		h("h2", { id }, title),
		h("div.dialog-body", body),
		h("p.actions", actions, h("button", { onclick: () => dialog.close() }, close)),
	);
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return dialog;
}

/**
 * Makes a button that asks for confirmation before it acts.
 * @param {Pick<View, "fail">} view
 * @param {string} act the button's text
 * @param {string} title
 * @param {string} text what will happen
 * @param {() => Promise<unknown>} perform
 * @param {boolean} [isOff]
 */
export const dangerButton = (view, act, title, text, perform, isOff) =>
	actButton(
		view,
		act,
		async () => {
			if (await isConfirmed(title, text, act)) await perform();
		},
		{ kind: "danger", isOff },
	);

/**
 * Makes a button that deletes the thing of the screen's address, and then leads to the list that it was in.
 * @param {View} view
 * @param {Parameters<typeof call>[0]} operation
 * @param {string} name
 * @param {string} text what will happen
 * @param {{ isOff?: boolean, query?: Record<string, boolean> }} [options]
 */
export const deleteButton = (view, operation, name, text, { isOff, query = {} } = {}) =>
	dangerButton(
		view,
		t("action.delete"),
		t("action.delete.of", { name }),
		text,
		() => call(operation, { params: String(view.id), query }).then(() => view.go(`#/${operation.split("_")[0]}`)),
		isOff,
	);

/** @param {string} title @param {string} text @param {string} act @returns {Promise<boolean>} */
function isConfirmed(title, text, act) {
	const { promise, resolve } = Promise.withResolvers();
	const agree = () => {
		resolve(true);
		dialog.close();
	};
	const button = h("button", { class: "danger", onclick: agree }, act);
	const dialog = openDialog(title, h("p", text), [button], t("action.cancel"));
	dialog.addEventListener("close", () => resolve(false));
	return promise;
}
