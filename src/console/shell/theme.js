// Light or dark: the system's choice until the user makes one.
const name = "plumbline.theme";

/** Dispatches `change` when the colours change, so that canvases can be redrawn. */
export const theme = new EventTarget();

const dark = matchMedia("(prefers-color-scheme: dark)");

/** @returns {"light" | "dark"} */
export function currentTheme() {
	const chosen = localStorage.getItem(name);
	if (chosen === "light" || chosen === "dark") return chosen;
	return dark.matches ? "dark" : "light";
}

function apply() {
	document.documentElement.dataset.theme = currentTheme();
	theme.dispatchEvent(new Event("change"));
}

export function startTheme() {
	apply();
	dark.addEventListener("change", apply);
}

export function toggleTheme() {
	localStorage.setItem(name, currentTheme() === "dark" ? "light" : "dark");
	apply();
}
