// Makes elements. Text is always a text node: what a document, a model or a user said is never read as HTML.

/** Set as properties, because as attributes they would only be first values. */
const properties = new Set(["value", "checked", "disabled", "selected", "indeterminate", "open", "hidden", "htmlFor"]);

/**
 * An element: `h("p", text)`, `h("p.small", text)` with classes, `h("a", { href }, text)` with props.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K | `${K}.${string}`} name
 * @param {Props | Child} [props] `on…` are listeners; null, undefined and false leave a prop out
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, props, ...children) {
	const [tag = "", ...classes] = name.split(".");
	const element = document.createElement(tag);
	element.classList.add(...classes);
	const isChild = typeof props !== "object" || props === null || props instanceof Node || Array.isArray(props);
	for (const [name, value] of isChild ? [] : Object.entries(props)) {
		if (value === null || value === undefined || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
		else if (properties.has(name)) Object.assign(element, { [name]: value });
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	if (isChild) append(element, /** @type {Child} */ (props));
	append(element, ...children);
	return /** @type {HTMLElementTagNameMap[K]} */ (element);
}

/** @param {Element} element @param {...Child} children */
export function append(element, ...children) {
	for (const child of children)
		if (Array.isArray(child)) append(element, ...child);
		else if (typeof child === "number") element.append(String(child));
		else if (child instanceof Node || typeof child === "string") element.append(child);
}

/** A text of ours in which code stands between backticks. @param {string} text */
export const prose = (text) => text.split(/\x60/).map((part, at) => (at % 2 === 0 ? part : h("code.whole", part)));

/** Replaces what is in an element. The focus stays on what is there again, so that a screen can be drawn anew while it is used. @param {Element} element @param {...Child} children */
export function fill(element, ...children) {
	const held = document.activeElement;
	const isWithin = held !== null && held !== element && element.contains(held);
	const alike = () =>
		[...element.querySelectorAll(held?.tagName ?? "")].filter(
			(one) => one.textContent === held?.textContent && one.getAttribute("href") === held?.getAttribute("href"),
		);
	// Of several that look the same, the one at the same place.
	const at = isWithin ? alike().indexOf(held) : -1;
	element.replaceChildren();
	append(element, ...children);
	if (!isWithin) return;
	const again = element.contains(held) ? held : held.textContent !== "" && alike()[at];
	if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}

let ids = 0;
export const newId = () => `id${++ids}`;
