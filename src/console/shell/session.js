// The API key of this browser session. It is kept in sessionStorage: it ends with the tab, and no other tab or site sees it.
const name = "plumbline.key";

/** Told whenever a key is entered or forgotten. */
export const session = new EventTarget();

export const keyOfSession = () => sessionStorage.getItem(name);

/** @param {string} key */
export function rememberKey(key) {
	sessionStorage.setItem(name, key);
	session.dispatchEvent(new Event("change"));
}

/** Forgets the key and everything else that was kept while it was there. */
export function forgetKey() {
	sessionStorage.clear();
	session.dispatchEvent(new Event("change"));
}
