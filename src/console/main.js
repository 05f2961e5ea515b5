// The console: its frame, the key, and the screen that the address names.
import { append, fill, h } from "./parts/dom.js";
import { chooseLanguage, currentLanguage, languages, t, word } from "./shell/language.js";
import { createRouter, placeOf } from "./shell/router.js";
import { forgetKey, hasScope, keyOfSession, session } from "./shell/session.js";
import { startShortcuts } from "./shell/shortcuts.js";
import { showFirstKey, showSignIn } from "./shell/sign-in.js";
import { startTheme, toggleTheme } from "./shell/theme.js";

/**
 * Screens in the order of the work, each with the scope that it requires. The module of a screen has its name.
 * @type {Record<string, Screens>}
 */
const groups = {
	start: { home: "-" },
	data: { documents: "documents", benchmarks: "documents" },
	training: { alignments: "alignments", "auto-align": "alignments" },
	results: { models: "models", evaluations: "alignments" },
	use: { playground: "inference", agents: "agents" },
	operation: { keys: "keys", system: "-" },
};
/** @type {Screens} */
const screens = Object.assign({}, ...Object.values(groups));

const navigation = h("nav", { "aria-label": t("nav.label"), id: "navigation" });
const main = h("main", { id: "main", tabindex: "-1" });
const menu = h("button", { class: "menu", "aria-expanded": "false", "aria-controls": "navigation" }, t("nav.menu"));
menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
navigation.addEventListener("keydown", ({ key }) => {
	if (key !== "Escape") return;
	openMenu(false);
	menu.focus();
});

/** @param {boolean} open */
function openMenu(open) {
	menu.setAttribute("aria-expanded", String(open));
	document.body.classList.toggle("menu-open", open);
}

/** Shows links to the screens that the key's scopes allow. */
function drawNavigation() {
	fill(navigation);
	for (const [group, members] of Object.entries(groups)) {
		const names = Object.keys(members).filter((name) => hasScope(members[name] ?? "-"));
		const links = names.map((name) => h("li", h("a", { href: `#/${name}`, "data-screen": name }, word("nav", name))));
		if (links.length > 0) append(navigation, h("p.nav-group", { "aria-hidden": "true" }, word("nav", `group.${group}`)), h("ul", links));
	}
}

const language = h(
	"select",
	{ "aria-label": t("shell.language"), onchange: () => chooseLanguage(/** @type {"en" | "de"} */ (language.value)) },
	Object.entries(languages).map(([value, text]) => h("option", { value, lang: value, selected: value === currentLanguage() }, text)),
);
const help = h("a", { href: t("shell.help.page") }, t("shell.help"));
const showShortcuts = startShortcuts(Object.keys(screens));
const keyboard = h("button", { class: "keyboard", onclick: showShortcuts }, t("keyboard.title"));
const signOut = h("button", { onclick: forgetKey }, t("shell.forget"));
const skip = h("a.skip", { href: "#main" }, t("shell.skip"));
// The router would read #main as the address of a screen.
skip.addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});
document.documentElement.lang = currentLanguage();
fill(
	document.body,
	skip,
	h(
		"header.bar",
		menu,
		h("a.brand", { href: "#/home" }, "plumbline"),
		h("span.bar-end", help, keyboard, language, h("button", { onclick: toggleTheme }, t("shell.theme")), signOut),
	),
	navigation,
	main,
	h("div", { id: "announcements", "aria-live": "polite" }),
);

const router = createRouter(main, screens, (shown) => {
	openMenu(false);
	for (const one of navigation.querySelectorAll("a"))
		if (one.dataset.screen === shown) one.setAttribute("aria-current", "page");
		else one.removeAttribute("aria-current");
});

function showWhatMay() {
	const isSignedIn = keyOfSession() !== null;
	document.body.classList.toggle("signed-in", isSignedIn);
	navigation.hidden = menu.hidden = keyboard.hidden = signOut.hidden = !isSignedIn;
	drawNavigation();
	router.stop();
	if (isSignedIn) router.start();
	else if (location.pathname === "/first-key") showFirstKey(main, location.hash.slice(1));
	else showSignIn(main);
}

startTheme();
session.addEventListener("change", showWhatMay);
// If a first-key link is opened in a session that has a key, home is shown and the token is removed from the address.
if (keyOfSession() !== null && !(placeOf(location.hash).screen in screens)) history.replaceState(null, "", "/");
showWhatMay();
