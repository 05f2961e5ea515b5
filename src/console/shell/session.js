// The API key of this browser session, and its scopes. They are kept in sessionStorage, so they end with the tab, and other sites
// cannot read them.
const name = "plumbline.key";
const scopesName = "plumbline.scopes";

/** Dispatches `change` whenever a key is entered or forgotten. */
export const session = new EventTarget();

export const keyOfSession = () => sessionStorage.getItem(name);

/** Whether the key has a scope; "-" stands for any key. @param {string} scope */
export function hasScope(scope) {
	const kept = sessionStorage.getItem(scopesName);
	// A session that began before scopes were stored has none. It is shown every screen, and the API refuses what the key may not do.
	return scope === "-" || kept === null || JSON.parse(kept).includes(scope);
}

/** @param {string} key @param {readonly string[]} scopes */
export function rememberKey(key, scopes) {
	sessionStorage.setItem(name, key);
	sessionStorage.setItem(scopesName, JSON.stringify(scopes));
	session.dispatchEvent(new Event("change"));
}

/** Forgets the key and everything else that this session has stored. */
export function forgetKey() {
	sessionStorage.clear();
	session.dispatchEvent(new Event("change"));
}
