// Keyboard shortcuts, for people who use no mouse. They can be turned off, because single keys interfere with speech input.
import { openDialog } from "../parts/dialog.js";
import { h } from "../parts/dom.js";
import { facts } from "../parts/page.js";
import { t, word } from "./language.js";

const name = "plumbline.shortcuts";
const isOn = () => localStorage.getItem(name) !== "off";

/**
 * Returns the screens by the letter that is pressed after g: the first letter of their name that no earlier screen has.
 * @param {string[]} screens
 */
function lettersOf(screens) {
	/** @type {Map<string, string>} */
	const letters = new Map();
	for (const screen of screens) letters.set([...screen].find((letter) => !letters.has(letter)) ?? "", screen);
	return letters;
}

/** @param {string[]} screens @returns {() => void} shows the shortcuts */
export function startShortcuts(screens) {
	const letters = lettersOf(screens);
	let isGoing = false;

	addEventListener("keydown", (event) => {
		const { key, target } = event;
		const isTyping = target instanceof Element && target.closest("input, select, textarea, dialog") !== null;
		if (!isOn() || isTyping || event.ctrlKey || event.metaKey || event.altKey || !document.body.classList.contains("signed-in")) return;
		const [search, begin] = ["input[type=search]", "a.primary"].map((one) => document.querySelector(`main ${one}`));
		const screen = isGoing ? letters.get(key) : undefined;
		isGoing = key === "g" && !isGoing;
		if (screen !== undefined) location.hash = `#/${screen}`;
		else if (key === "?") show();
		else if (key === "/" && search instanceof HTMLElement) search.focus();
		else if (key === "n" && begin instanceof HTMLElement) begin.click();
		else return;
		event.preventDefault();
	});

	function show() {
		const box = h("input", { type: "checkbox", checked: isOn() });
		box.addEventListener("change", () => localStorage.setItem(name, box.checked ? "on" : "off"));
		const key = (/** @type {string} */ one) => h("kbd", one);
		openDialog(t("keyboard.title"), [
			facts([
				[t("keyboard.this"), key("?")],
				[t("filter.search"), key("/")],
				[t("keyboard.new"), key("n")],
				[t("keyboard.ask"), [key(t("keyboard.ctrl")), " ", key(t("keyboard.enter"))]],
				...[...letters].map(([letter, screen]) => /** @type {[string, Node[]]} */ ([word("nav", screen), [key("g"), key(letter)]])),
			]),
			h("label.check", box, t("keyboard.on")),
		]);
	}
	return show;
}
