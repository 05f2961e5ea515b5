// The part of the address after # names the screen, e.g. #/documents or #/documents/document_1?…. It never contains the key.
import { readUntil } from "../api/client.js";
import { fill } from "../parts/dom.js";
import { failure, loading } from "../parts/states.js";

/** @param {string} hash */
export function placeOf(hash) {
	const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
	const [screen = "", id] = path.split("/");
	return { screen: screen || "home", id: id ? decodeURIComponent(id) : null, query: new URLSearchParams(query) };
}

/**
 * @param {HTMLElement} place
 * @param {Screens} screens
 * @param {(screen: string) => void} onShown
 */
export function createRouter(place, screens, onShown) {
	let leaving = new AbortController();
	/** Counts the user's moves, so that an action that ends late finds out whether its screen was left. */
	let moves = 0;

	/** @param {boolean} isMove the address has changed, so the focus moves to the screen's heading */
	async function show(isMove) {
		leaving.abort();
		if (isMove) moves++;
		const stay = moves;
		const controller = new AbortController();
		leaving = controller;
		const { signal } = controller;
		readUntil(signal);
		const { screen, id, query } = placeOf(location.hash);
		const inner = document.createElement("div");
		const errors = document.createElement("div");
		inner.append(loading());
		fill(place, errors, inner);
		onShown(screen);
		const fail = (/** @type {unknown} */ error) => {
			if (signal.aborted) return;
			fill(errors, failure(error));
			errors.scrollIntoView({ block: "nearest" });
		};
		try {
			// A screen's module is loaded when the screen is first shown.
			/** @type {{ show: (view: View) => Promise<void> }} */
			const module = await import(`../screens/${Object.hasOwn(screens, screen) ? screen : "home"}.js`);
			await module.show({
				...{ place: inner, id, query, signal, fail },
				async reload() {
					if (stay === moves) await show(false);
				},
				go(hash) {
					if (stay === moves) location.hash = hash;
				},
			});
		} catch (error) {
			if (signal.aborted) return;
			fill(
				inner,
				failure(error, () => void show(false)),
			);
		}
		if (isMove && !signal.aborted) {
			document.getElementById("announcements")?.replaceChildren();
			place.querySelector("h1")?.focus({ preventScroll: true });
			scrollTo(0, 0);
		}
	}

	const onMove = () => void show(true);
	return {
		start() {
			addEventListener("hashchange", onMove);
			void show(false);
		},
		stop() {
			removeEventListener("hashchange", onMove);
			leaving.abort();
			moves++;
			readUntil();
		},
	};
}
