// Asks for the API key. On a new appliance it makes the first one.
import { ApiError, call, recordOfKey } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { code, head } from "../parts/page.js";
import { t } from "./language.js";
import { rememberKey } from "./session.js";

/** Until the console is opened, the first key is kept for this tab, because only this page has it and choosing a language loads it again. */
const firstKey = "plumbline.first-key";

/** @param {HTMLElement} place */
export function showSignIn(place) {
	fill(
		place,
		head(t("signin.title"), { lead: t("signin.lead") }),
		form([{ name: "key", label: t("signin.key"), type: "password", required: true, hint: t("signin.hint") }], {
			submit: t("signin.submit"),
			async onSubmit({ key }) {
				// Text outside ASCII, such as the «…» of a shortened key, is no key, and no header can carry it.
				const record = /^[\x20-\x7e]*$/.test(String(key)) ? await recordOfKey(String(key)) : null;
				if (record === null) throw new ApiError(401, { message: t("signin.wrong"), hint: t("signin.check") }, []);
				rememberKey(String(key), record.scopes);
			},
		}),
	);
}

/**
 * Shows the page behind the link that `serve` prints, which makes the first key. The token is in the link's fragment, which browsers do
 * not send, so it appears in no log of requests.
 * @param {HTMLElement} place
 * @param {string} token
 */
export function showFirstKey(place, token) {
	const made = sessionStorage.getItem(firstKey);
	if (made !== null) return showMade(place, JSON.parse(made));
	if (token === "") return showSignIn(place);
	const field = { name: "user", label: t("claim.user"), required: true };
	const more = { pattern: "[A-Za-z0-9][A-Za-z0-9._@\\-]{0,99}", autocomplete: "username" };
	fill(
		place,
		head(t("claim.title"), { lead: t("claim.lead") }),
		form([{ ...field, more }], {
			submit: t("keys.make"),
			async onSubmit({ user }) {
				const made = await call("access_claim", { body: { token, user } });
				sessionStorage.setItem(firstKey, JSON.stringify(made));
				history.replaceState(null, "", "/first-key");
				showMade(place, made);
			},
		}),
	);
}

/** @param {HTMLElement} place @param {Replies["access_claim"]} made */
function showMade(place, { key, scopes }) {
	const open = () => {
		sessionStorage.removeItem(firstKey);
		history.replaceState(null, "", "/");
		rememberKey(key, scopes);
	};
	fill(
		place,
		head(t("claim.made"), { lead: t("claim.keep") }),
		code(key, t("signin.key")),
		h("p", t("claim.shell")),
		code(`export PLUMBLINE_KEY=${key}`, t("claim.shell")),
		h("p.actions", h("button", { class: "primary", onclick: open }, t("claim.open"))),
	);
}
