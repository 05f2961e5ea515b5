// The head of a screen, its sections, lists of facts, and buttons.
import { number, t, word } from "../shell/language.js";
import { h } from "./dom.js";
import { announce, badge, messageOf } from "./states.js";

/**
 * @param {string} title
 * @param {{ lead?: Child, actions?: Child[], back?: string }} [more] `back`: the screen that this one belongs to
 */
export function head(title, { lead, actions = [], back } = {}) {
	document.title = `${title} · plumbline`;
	return h(
		"header.head",
		back && h("p.back", link(`#/${back}`, `← ${word("nav", back)}`)),
		h("div.head-line", h("h1", { tabindex: "-1" }, title), h("div.actions", actions)),
		lead && h("p.lead", lead),
	);
}

/** @param {string} title @param {...Child} children */
export const section = (title, ...children) => h("section.card", h("h2", title), ...children);

/** @param {string} text @param {...Child} children */
export const details = (text, ...children) => h("details", h("summary", text), ...children);

/** @param {readonly Child[]} items @param {"ul" | "ol"} [tag] @param {string} [kind] */
export const list = (items, tag = "ul", kind) =>
	h(
		tag,
		{ class: kind },
		items.map((item) => h("li", item)),
	);

/** A list with a line between its entries, without bullets. @param {readonly Child[]} items */
export const entries = (items) => list(items, "ul", "list");

/** Formats a value: a number in the user's language, a dash for null, undefined and the empty string. @param {Child} value */
export const shown = (value) => (typeof value === "number" ? number(value) : (value ?? "") === "" ? "–" : value);

/** Pairs of name and value. @param {[name: string, value: Child][]} pairs */
export const facts = (pairs) =>
	h(
		"dl.facts",
		pairs.map(([name, value]) => h("div", h("dt", name), h("dd", shown(value)))),
	);

/** @param {string} href @param {...Child} children */
export const link = (href, ...children) => h("a", { href }, children);

/** A link to the screen's main action. The shortcut n follows it. @param {string} href @param {string} text */
export const mainLink = (href, text) => h("a", { href, class: "button primary" }, text);

/** A state of the API as a badge. @param {string} state */
export const statusBadge = (state) => badge(state, word("status", state));

/**
 * Makes a button for an action that takes a while. The action cannot be started again while it runs, and its error goes to `view.fail`.
 * The button stays focusable meanwhile, so that the focus can return to it from a dialog.
 * @param {Pick<View, "fail">} view
 * @param {string} text
 * @param {() => Promise<unknown>} act
 * @param {{ kind?: string, isOff?: boolean | undefined }} [options]
 */
export function actButton(view, text, act, { kind = "", isOff = false } = {}) {
	const button = h("button", { class: kind, disabled: isOff }, text);
	button.addEventListener("click", async () => {
		if (button.ariaDisabled === "true") return;
		button.ariaDisabled = "true";
		try {
			await act();
		} catch (error) {
			view.fail(error);
		} finally {
			button.ariaDisabled = null;
		}
	});
	return button;
}

/** Shows text with a button that copies it. @param {string} text @param {string} label */
export function code(text, label) {
	const copy = h("button", { class: "copy" }, t("action.copy"));
	copy.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(pre.textContent ?? "");
			announce(t("action.copied"));
		} catch {
			// Pages that came from another machine without TLS have no clipboard, so the text is selected instead.
			getSelection()?.selectAllChildren(pre);
		}
	});
	const pre = h("pre", { tabindex: "0", role: "region", "aria-label": label }, h("code", text));
	return h("div.code", pre, copy);
}

/**
 * Repeats `act`, with pauses of `ms`, while the screen is shown and the page is visible.
 * @param {AbortSignal} signal @param {number} ms @param {() => Promise<boolean | void>} act resolves to false to end
 */
export async function every(signal, ms, act) {
	let failed = 0;
	/** @type {HTMLElement | undefined} */
	let told;
	for (;;) {
		await new Promise((resolve) => setTimeout(resolve, ms));
		if (signal.aborted) return told?.remove();
		if (document.visibilityState === "hidden") continue;
		try {
			const goesOn = await act();
			failed = 0;
			told?.remove();
			if (goesOn === false) return;
		} catch (error) {
			// One failed poll is ignored, because the next one makes up for it. After three, what the screen shows is old.
			if (++failed > 2 && !signal.aborted && !told?.isConnected) told = announce(messageOf(error), 1e9);
		}
	}
}
