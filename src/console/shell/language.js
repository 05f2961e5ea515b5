// Texts and figures in the user's language, English or German. Each language is one file under texts/.
/** @typedef {typeof import("../texts/en.js").en} English */
/**
 * `said`: translations of the sentences that the appliance says in English, by code.
 * @typedef {{ [Group in keyof English]: Record<keyof English[Group], string> } & { said: Record<string, string> }} Texts
 */
/** @typedef {{ [Group in keyof English]: `${Group}.${keyof English[Group] & string}` }[keyof English]} TextKey */
/** @typedef {"en" | "de"} Language */

const name = "plumbline.language";

/** Each language by its own name, so that its speakers find it. @type {Record<Language, string>} */
export const languages = { en: "English", de: "Deutsch" };

/** @returns {Language} */
export function currentLanguage() {
	const chosen = localStorage.getItem(name) ?? navigator.language.slice(0, 2);
	return chosen === "de" ? "de" : "en";
}

/** @param {Language} language */
export function chooseLanguage(language) {
	localStorage.setItem(name, language);
	location.reload();
}

const language = currentLanguage();
/** @type {Record<string, Record<string, string>>} */
const texts = language === "de" ? (await import("../texts/de.js")).de : (await import("../texts/en.js")).en;
const plural = new Intl.PluralRules(language);

/**
 * Returns the text of a key. `{name}` is replaced by the value of that name. Of "one|many" the first is used if `n` is one.
 * @param {TextKey} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
	const [group = "", ...rest] = key.split(".");
	return filled(word(group, rest.join("."), key), values);
}

/** @param {string} template @param {Record<string, string | number>} values */
function filled(template, values) {
	const [one = "", many = one] = template.split("|");
	const text = /** @type {string} */ (plural.select(Number(values.n ?? 0)) === "one" ? one : many);
	return text.replace(/\{(\w+)\}/g, (_, field) => {
		const value = values[field] ?? "";
		return typeof value === "number" ? number(value) : value;
	});
}

/**
 * Translates a sentence of the appliance. Returns the sentence itself if the language has no text for the code, or if a value in that
 * text is unknown.
 * @param {string} code @param {string} sentence @param {Record<string, string | number | undefined>} [values]
 */
export function said(code, sentence, values = {}) {
	const text = word("said", code, "");
	const isKnown = [...text.matchAll(/\{(\w+)\}/g)].every(([, name = ""]) => values[name] !== undefined);
	return text !== "" && isKnown ? filled(text, /** @type {Record<string, string | number>} */ (values)) : sentence;
}

/**
 * Returns the text in `group` of a word of the API. Returns `otherwise`, by default the word itself, if there is none.
 * @param {string} group @param {string} word @param {string} [otherwise]
 */
export const word = (group, word, otherwise = word) => texts[group]?.[word] ?? otherwise;

/** @param {boolean} value */
export const yesNo = (value) => (value ? t("state.yes") : t("state.no"));

/** @param {number | null | undefined} value @param {number} [most] digits of the fraction @param {number} [least] */
export const number = (value, most = 0, least = 0) =>
	value == null
		? "–"
		: new Intl.NumberFormat(language, { minimumFractionDigits: least, maximumFractionDigits: most }).format(value).replace("-", "−");

/** @param {number | null | undefined} value out of 100 */
export const points = (value) => number(value, 1, 1);

/** @param {number} value from 0 to 1 @param {number} [digits] */
export const percent = (value, digits = 0) =>
	new Intl.NumberFormat(language, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);

/** The name of a language in the user's language. @param {string} code ISO 639-1 */
export const languageName = (code) => new Intl.DisplayNames(language, { type: "language" }).of(code) ?? code;

/** @param {number} bytes */
export function bytes(bytes) {
	const units = ["B", "kB", "MB", "GB", "TB"];
	let value = bytes;
	let unit = 0;
	for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000;
	return `${number(value, value < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

/**
 * Formats a date or a time with non-breaking spaces, so that a line can break only between the date and the time.
 * @param {Date} date @param {Intl.DateTimeFormatOptions} options
 */
const timeIn = (date, options) => new Intl.DateTimeFormat(language, options).format(date).replaceAll(" ", "\u00a0");

/**
 * @param {string | null | undefined} iso
 * @param {"short" | "medium"} [timeStyle] medium has the seconds
 * @param {string} [never] returned if there is no time
 */
export function when(iso, timeStyle = "short", never = "–") {
	if (!iso) return never;
	const date = new Date(iso);
	return `${timeIn(date, { dateStyle: "medium" })}, ${timeIn(date, { timeStyle })}`;
}

/** @param {string} iso */
export const timeOf = (iso) => timeIn(new Date(iso), { timeStyle: "medium" });

/** @param {string} day YYYY-MM-DD, in UTC */
export const dayOf = (day) => timeIn(new Date(day), { dateStyle: "medium", timeZone: "UTC" });

/** @param {number} seconds */
export function duration(seconds) {
	if (seconds < 90) return t("time.seconds", { n: Math.round(seconds) });
	if (seconds < 5400) return t("time.minutes", { n: Math.round(seconds / 60) });
	return t("time.hours", { hours: number(seconds / 3600, 1) });
}

/** @param {number | null | undefined} low @param {number | null | undefined} high */
export const range = (low, high) => t("state.range", { low: points(low), high: points(high) });

/** @param {{ score: number, low: number, high: number } | null | undefined} score */
export const interval = (score) => (score ? `${points(score.score)} (${range(score.low, score.high)})` : "–");

/** Formats a difference in points with its interval. @param {{ difference: number, low: number, high: number } | null | undefined} of */
export const difference = (of) => (of ? `${points(of.difference)} (${range(of.low, of.high)})` : "–");
