// Forms: labelled fields, errors beside the field that they are about, one submission at a time.
import { ApiError } from "../api/client.js";
import { t, word } from "../shell/language.js";
import { openDialog } from "./dialog.js";
import { fill, h, newId, prose } from "./dom.js";
import { failure } from "./states.js";

/**
 * @param {Field[]} fields
 * @param {{ submit: string, onSubmit: (values: Values) => Promise<unknown>, actions?: Child[], kind?: string }} options
 */
export function form(fields, { submit, onSubmit, actions = [], kind = "primary" }) {
	const errors = h("div");
	const button = h("button", { class: kind, type: "submit" }, submit);
	const made = fields.map((field) => ({ field, ...control(field) }));
	const element = h(
		"form",
		{ novalidate: false },
		made.map(({ row }) => row),
		errors,
		h("p.actions", button, actions),
	);
	element.addEventListener("submit", async (event) => {
		event.preventDefault();
		fill(errors);
		for (const { error } of made) fill(error);
		// With aria-disabled the button stays focusable, so that the focus can return to it from a dialog.
		if (button.ariaDisabled === "true") return;
		button.ariaDisabled = "true";
		try {
			await onSubmit(Object.fromEntries(made.map(({ field, read }) => [field.name, read()])));
		} catch (thrown) {
			const details = thrown instanceof ApiError ? thrown.details : [];
			for (const { loc, msg } of details) made.find(({ field }) => loc.includes(field.name))?.error.append(msg);
			if (element.isConnected) {
				fill(errors, failure(thrown));
				errors.scrollIntoView({ block: "nearest" });
			} else {
				// The user has gone to another screen. After a sign-out there is nobody to tell.
				const { name, status } = /** @type {ApiError} */ (thrown);
				if (name !== "AbortError" && status !== 401) openDialog(submit, failure(thrown));
			}
		}
		button.ariaDisabled = null;
	});
	return element;
}

/** @param {Field} field */
function control(field) {
	const { name, label, hint, value, required = false, options, more = {} } = field;
	const type = field.type ?? (options ? "select" : typeof value === "number" ? "number" : "text");
	const id = newId();
	const error = h("p.field-error", { id: `${id}-error`, "aria-live": "polite" });
	const about = [hint && `${id}-hint`, `${id}-error`].filter(Boolean).join(" ");
	const shared = { id, name, required, "aria-describedby": about, ...more };
	const hintLine = hint && h("p.hint", { id: `${id}-hint` }, prose(hint));
	if (type === "checks") return checks(field, error, hintLine);
	if (type === "checkbox") {
		const input = h("input", { ...shared, type, checked: value === true });
		const row = h("div.field.check", input, h("label", { for: id }, label), hintLine, error);
		return { row, error, read: () => input.checked };
	}
	const input = inputOf(type, { ...shared, value }, options ?? []);
	const chosen = h("span.small");
	input.addEventListener("change", () => {
		if (input instanceof HTMLInputElement)
			fill(
				chosen,
				[...(input.files ?? [])].map((file) => ` ${file.name}`),
			);
	});
	const shown = type === "file" ? [filePick(/** @type {HTMLInputElement} */ (input), t("field.file")), chosen] : input;
	const row = h("div.field", h("label", { for: id }, label), shown, hintLine, error);
	const read = () => {
		if (type === "file") {
			const { files } = /** @type {HTMLInputElement} */ (input);
			return [...(files ?? [])];
		}
		const text = input.value.trim();
		if (text === "") return undefined;
		return type === "number" ? Number(text) : text;
	};
	return { row, error, read };
}

/** @param {NonNullable<Field["type"]>} type @param {Record<string, unknown>} props @param {NonNullable<Field["options"]>} options */
function inputOf(type, props, options) {
	if (type === "textarea") return h("textarea", { rows: 3, ...props });
	if (type !== "select") return h("input", { autocomplete: "off", ...props, type });
	const { value, ...rest } = props;
	const made = [...Map.groupBy(options, ({ group }) => group)].map(([group, members]) => {
		const all = members.map((one) => h("option", { value: one.value, selected: one.chosen === true || one.value === value }, one.text));
		return group ? h("optgroup", { label: group }, all) : all;
	});
	return h("select", rest, made);
}

/**
 * Wraps a file input in a button with our text, because the browser's own button is in the browser's language.
 * @param {HTMLInputElement} input @param {string} text @param {string} [kind]
 */
export const filePick = (input, text, kind = "") => h("span", { class: `button pick ${kind}` }, text, input);

/**
 * Makes an option for each word of the API, with the word's text in `group`.
 * @param {readonly string[]} values @param {Parameters<typeof word>[0]} group
 */
export const optionsOf = (values, group) => values.map((value) => ({ value, text: word(group, value) }));

/** A list of checkboxes that is longer than this gets a search field. */
const searchedFrom = 20;

/**
 * Makes a checkbox for each option. More than three options get a box that changes all that are shown, and long lists a search field.
 * @param {Field} field @param {HTMLElement} error @param {Child} hintLine
 */
function checks({ name, label, options = [] }, error, hintLine) {
	const boxes = options.map(({ value, text, chosen }) => {
		const input = h("input", { type: "checkbox", name, value, checked: chosen !== false });
		return { input, row: h("label.check", input, text) };
	});
	const all = h("input", { type: "checkbox" });
	const draw = () => {
		const n = boxes.filter(({ input }) => input.checked).length;
		all.checked = n === boxes.length;
		all.indeterminate = n > 0 && n < boxes.length;
	};
	draw();
	all.addEventListener("change", () => {
		for (const { input, row } of boxes) if (!row.hidden) input.checked = all.checked;
		draw();
	});
	for (const { input } of boxes) input.addEventListener("change", draw);
	const find = t("filter.find", { what: label });
	// It belongs to no form, so that Enter submits none.
	const search = h("input", { form: "", type: "search", autocomplete: "off", "aria-label": find, placeholder: find });
	search.addEventListener("input", () => {
		const wanted = search.value.trim().toLowerCase();
		for (const { row } of boxes) row.hidden = !row.textContent?.toLowerCase().includes(wanted);
	});
	const row = h(
		"fieldset.field",
		h("legend", label),
		options.length > 3 && h("label.check", all, t("filter.all")),
		options.length > searchedFrom && search,
		h(
			"div.checks",
			boxes.map((box) => box.row),
		),
		hintLine,
		error,
	);
	return { row, error, read: () => boxes.filter(({ input }) => input.checked).map(({ input }) => input.value) };
}
