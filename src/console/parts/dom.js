// Makes elements. Text always becomes a text node, so what a document, a model or a user wrote is never read as HTML.

/** Props that are set as properties, because some have no attribute, or one that gives only the initial value. */
const properties = new Set(["value", "checked", "disabled", "selected", "indeterminate", "open", "hidden", "htmlFor"]);

/**
 * Makes an element: `h("p", text)`, `h("p.small", text)` with classes, `h("a", { href }, text)` with props.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K | `${K}.${string}`} name
 * @param {Props | Child} [props] `on…` adds a listener; a prop that is null, undefined or false is left out
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, props, ...children) {
	const [tag = "", ...classes] = name.split(".");
	const element = document.createElement(tag);
	element.classList.add(...classes);
	// A button in a form would submit it otherwise.
	if (element instanceof HTMLButtonElement) element.type = "button";
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

/** Splits a text into strings and, for what stands between backticks, code elements. @param {string} text */
export const prose = (text) => text.split(/\x60/).map((part, at) => (at % 2 === 0 ? part : h("code.whole", part)));

/**
 * Replaces the content of an element. If the new content has the focused element or one that looks the same, this gets the focus, so
 * that a screen can be redrawn while it is used.
 * @param {Element} element @param {...Child} children
 */
export function fill(element, ...children) {
	const held = document.activeElement;
	const isWithin = held !== null && held !== element && element.contains(held);
	const alike = () =>
		[...element.querySelectorAll(held?.tagName ?? "")].filter(
			(one) => one.textContent === held?.textContent && one.getAttribute("href") === held?.getAttribute("href"),
		);
	// If several look the same, the one at the same position is taken.
	const at = isWithin ? alike().indexOf(held) : -1;
	element.replaceChildren();
	append(element, ...children);
	if (!isWithin) return;
	const again = element.contains(held) ? held : held.textContent !== "" && alike()[at];
	if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}

let ids = 0;
export const newId = () => `id${++ids}`;
