// The head of a screen, its sections, and lists of facts.
import { t } from "../shell/language.js";
import { h } from "./dom.js";
import { announce } from "./states.js";

/** @import { Child } from "./dom.js" */

/**
 * @param {string} title
 * @param {{ lead?: Child, actions?: Child[], back?: { href: string, text: string } }} [more]
 */
export function head(title, { lead, actions = [], back } = {}) {
	document.title = `${title} · plumbline`;
	return h(
		"header",
		{ class: "head" },
		back && h("p", { class: "back" }, h("a", { href: back.href }, `← ${back.text}`)),
		h("div", { class: "head-line" }, h("h1", { tabindex: "-1" }, title), h("div", { class: "actions" }, actions)),
		lead && h("p", { class: "lead" }, lead),
	);
}

/** @param {string} title @param {...Child} children */
export const section = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);

/** Pairs of name and value. @param {[name: string, value: Child][]} pairs */
export const facts = (pairs) =>
	h(
		"dl",
		{ class: "facts" },
		pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))),
	);

/** @param {string} href @param {...Child} children */
export const link = (href, ...children) => h("a", { href }, children);

/**
 * A button for an act that takes a while: it cannot be pressed twice, and says how it ended.
 * @param {string} text
 * @param {() => Promise<unknown>} act
 * @param {{ kind?: string, onError: (error: unknown) => void, disabled?: boolean }} options
 */
export function actButton(text, act, { kind = "", onError, disabled = false }) {
	const button = h("button", { type: "button", class: kind, disabled }, text);
	button.addEventListener("click", async () => {
		button.disabled = true;
		try {
			await act();
		} catch (error) {
			onError(error);
		} finally {
			button.disabled = false;
		}
	});
	return button;
}

/** Text to copy. @param {string} text @param {string} label */
export function code(text, label) {
	const copy = h("button", { type: "button", class: "copy" }, t("action.copy"));
	copy.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(text);
			announce(t("action.copied"));
		} catch {
			// There is no clipboard on pages without TLS from another machine; the text can be selected.
			getSelection()?.selectAllChildren(pre);
		}
	});
	const pre = h("pre", { tabindex: "0", role: "region", "aria-label": label }, h("code", {}, text));
	return h("div", { class: "code" }, pre, copy);
}

/** Repeats while the screen is shown and the page is visible. @param {AbortSignal} signal @param {number} ms @param {() => Promise<boolean | void>} act returns false to end */
export async function every(signal, ms, act) {
	while (!signal.aborted) {
		await new Promise((resolve) => setTimeout(resolve, ms));
		if (signal.aborted) return;
		if (document.visibilityState === "hidden") continue;
		// A poll that failed is made up for by the next one.
		if ((await act().catch(() => true)) === false) return;
	}
}
