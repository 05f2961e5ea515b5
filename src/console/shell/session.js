// The API key of this browser session, and what it may. It is kept in sessionStorage: it ends with the tab, and no other tab or
// site sees it.
const name = "plumbline.key";
const scopesName = "plumbline.scopes";

/** Told whenever a key is entered or forgotten. */
export const session = new EventTarget();

export const keyOfSession = () => sessionStorage.getItem(name);

/** Whether the key has a scope; "-" stands for any key. @param {string} scope */
export function hasScope(scope) {
	const kept = sessionStorage.getItem(scopesName);
	// A session from before scopes were kept is refused by the API where it has to be.
	return scope === "-" || kept === null || JSON.parse(kept).includes(scope);
}

/** @param {string} key @param {readonly string[]} scopes */
export function rememberKey(key, scopes) {
	sessionStorage.setItem(name, key);
	sessionStorage.setItem(scopesName, JSON.stringify(scopes));
	session.dispatchEvent(new Event("change"));
}

/** Forgets the key and everything else that was kept while it was there. */
export function forgetKey() {
	sessionStorage.clear();
	session.dispatchEvent(new Event("change"));
}
