// The console's client: calls the operations of operations.js with the key of this browser session.
import { forgetKey, hasScope, keyOfSession, session } from "../shell/session.js";
import { operations } from "./operations.js";

/** @import { CallInput, Detail, Name, Replies, ServerEvent } from "./types.d.ts" */

/** A refusal by the API, with its hint, its request id and the details of each field. */
export class ApiError extends Error {
	/**
	 * @param {number} status
	 * @param {{ message?: string, code?: string, hint?: string, request_id?: string }} error
	 * @param {Detail[]} details
	 */
	constructor(status, error, details) {
		super(error.message ?? `HTTP ${status}`);
		this.status = status;
		this.code = error.code ?? "";
		this.hint = error.hint ?? "";
		this.requestId = error.request_id ?? "";
		this.details = details;
	}
}

/** @param {number} status @param {string} text */
function errorOf(status, text) {
	try {
		const { error = {}, detail } = JSON.parse(text);
		return new ApiError(status, error, Array.isArray(detail) ? detail : []);
	} catch {
		return new ApiError(status, {}, []);
	}
}

/** @param {Name} name */
const operation = (name) =>
	/** @type {[scope: string, method: string, path: string, once?: string]} */ ((operations[name] ?? "").split(" "));

/** Whether the key has the scope that an operation requires. @param {Name} name */
export const may = (name) => hasScope(operation(name)[0]);

/** @param {Name} name @param {CallInput} input */
function pathOf(name, { params = {}, query = {} } = {}) {
	const [, , place] = operation(name);
	const path = (place.startsWith("/") ? place : `/api/v3/${place}`).replace(/\{(\w+)\}/g, (_, one) =>
		encodeURIComponent((typeof params === "string" ? params : params[one]) ?? ""),
	);
	const asked = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
	return asked.length === 0 ? path : `${path}?${new URLSearchParams(asked.map(([key, value]) => [key, String(value)]))}`;
}

/** @type {AbortSignal | undefined} */
let reading;

/** Sets the signal that aborts later GET requests, so that they end with their screen. @param {AbortSignal} [signal] */
export function readUntil(signal) {
	reading = signal;
}

/** @param {Name} name @param {CallInput} input @param {Record<string, string>} [headers] @param {string | null} [key] */
async function send(name, input, headers = {}, key = keyOfSession()) {
	const [, method, , once] = operation(name);
	const signal = input.signal ?? (method === "GET" ? reading : undefined);
	const response = await fetch(pathOf(name, input), {
		method,
		headers: {
			...(key === null ? {} : { authorization: `Bearer ${key}` }),
			...(input.body === undefined ? {} : { "content-type": "application/json" }),
			...(once && input.onceKey !== undefined ? { "idempotency-key": input.onceKey } : {}),
			...headers,
		},
		...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
		...(signal && { signal }),
	});
	if (response.ok) return response;
	// The key has been revoked or has expired. The console forgets it and shows the sign-in screen.
	if (response.status === 401 && key !== null && key === keyOfSession() && name !== "access_claim") forgetKey();
	throw errorOf(response.status, await response.text());
}

/**
 * @template {Name} N
 * @param {N} name
 * @param {CallInput} [input]
 * @returns {Promise<Replies[N]>}
 */
export async function call(name, input = {}) {
	return (await send(name, input)).json();
}

/**
 * As `call`, and returns the id of the request too.
 * @template {Name} N
 * @param {N} name
 * @param {CallInput} input
 * @returns {Promise<[reply: Replies[N], requestId: string | null]>}
 */
export async function callWithId(name, input) {
	const response = await send(name, input);
	return [await response.json(), response.headers.get("x-request-id")];
}

/**
 * As `call`, but returns null without a request if the key lacks the scope.
 * @template {Name} N
 * @param {N} name
 * @param {CallInput} [input]
 * @returns {Promise<Replies[N] | null>}
 */
export const callIfMay = async (name, input) => (may(name) ? call(name, input) : null);

/** As `call`, for an answer that is text, not JSON. @param {Name} name @param {CallInput} [input] */
export async function callText(name, input = {}) {
	return (await send(name, input)).text();
}

/**
 * Returns the rows of all pages of a list. The first page is loaded alone, the others five at a time. Empty if the key lacks the scope.
 * @template {Name} N
 * @template T
 * @param {N} name
 * @param {(reply: Replies[N]) => T[]} rowsOf
 * @param {CallInput} [input]
 * @returns {Promise<T[]>}
 */
export async function callAll(name, rowsOf, input = {}) {
	const limit = 100;
	const pageFrom = async (/** @type {number} */ offset) => rowsOf(await call(name, { ...input, query: { ...input.query, limit, offset } }));
	if (!may(name)) return [];
	const rows = await pageFrom(0);
	while (rows.length > 0 && rows.length % limit === 0) {
		const from = rows.length;
		rows.push(...(await Promise.all([0, 1, 2, 3, 4].map((page) => pageFrom(from + page * limit)))).flat());
		if (rows.length === from) break;
	}
	return rows;
}

/** Saves an answer as a file. @param {Name} name @param {CallInput} input @param {string} fileName */
export async function download(name, input, fileName) {
	const url = URL.createObjectURL(await (await send(name, input)).blob());
	const link = Object.assign(document.createElement("a"), { href: url, download: fileName });
	link.click();
	setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Yields the events of one streamed answer.
 * @param {Name} name
 * @param {CallInput} input
 * @param {Record<string, string>} [headers]
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* stream(name, input, headers = {}) {
	const response = await send(name, input, { accept: "text/event-stream", ...headers });
	yield* eventsOf(/** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body));
}

/**
 * Yields the events after `lastId`. A stream that breaks is resumed after the last event that arrived.
 * @param {Name} name
 * @param {CallInput} input
 * @param {string} [lastId]
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* events(name, input, lastId = "") {
	let last = lastId;
	for (let broken = 0; ; ) {
		try {
			for await (const event of stream(name, input, last === "" ? {} : { "last-event-id": last })) {
				if (event.id !== "") last = event.id;
				broken = 0;
				yield event;
			}
			return;
		} catch (error) {
			if (error instanceof ApiError || input.signal?.aborted) throw error;
			broken++;
			await new Promise((resolve) => setTimeout(resolve, Math.min(30_000, 500 * 2 ** broken)));
			if (input.signal?.aborted) return;
		}
	}
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} body @returns {AsyncGenerator<ServerEvent>} */
async function* eventsOf(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	try {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) return;
			const blocks = (rest + value).split("\n\n");
			rest = blocks.pop() ?? "";
			for (const block of blocks) {
				const lines = block.split("\n");
				const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
				const id =
					lines
						.find((line) => line.startsWith("id:"))
						?.slice(3)
						.trim() ?? "";
				if (data.length > 0) yield { id, data: data.join("\n") };
			}
		}
	} finally {
		reader.cancel().catch(() => {});
	}
}

/**
 * Uploads one file and reports the share that has been sent, which `fetch` cannot do. The upload goes on while other screens are
 * shown. Signing out ends it.
 * @template {Name} N
 * @param {N} name
 * @param {File} file
 * @param {{ onProgress?: (share: number) => void, query?: CallInput["query"] }} [options]
 * @returns {Promise<Replies[N]>}
 */
export function upload(name, file, { onProgress = () => {}, query = {} } = {}) {
	const { promise, resolve, reject } = Promise.withResolvers();
	const request = new XMLHttpRequest();
	request.open("POST", pathOf(name, { query }));
	request.setRequestHeader("authorization", `Bearer ${keyOfSession()}`);
	if (operation(name)[3]) request.setRequestHeader("idempotency-key", onceKey());
	request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
	request.onload = () => {
		if (request.status < 300) resolve(JSON.parse(request.responseText));
		else reject(errorOf(request.status, request.responseText));
	};
	request.onerror = () => reject(new TypeError("network"));
	request.onabort = () => reject(new DOMException("aborted", "AbortError"));
	const over = new AbortController();
	const { signal } = over;
	request.onloadend = () => over.abort();
	// The browser asks before it leaves the page.
	addEventListener("beforeunload", (event) => event.preventDefault(), { signal });
	session.addEventListener("change", () => request.abort(), { signal });
	const form = new FormData();
	form.append("file", file, file.name);
	request.send(form);
	return promise;
}

/** Makes an idempotency key. `crypto.randomUUID` would exist only on pages that came over TLS or from this machine. */
export const onceKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Returns the appliance's record of a key. Null if the key is not valid.
 * @param {string} key @returns {Promise<Replies["keys_current"] | null>}
 */
export const recordOfKey = (key) =>
	orNull(
		send("keys_current", {}, {}, key).then((response) => response.json()),
		401,
	);

/**
 * Resolves to null if the API refuses with one of these statuses, e.g. because there is nothing yet.
 * @template T
 * @param {Promise<T>} asked
 * @param {...number} statuses
 * @returns {Promise<T | null>}
 */
export const orNull = (asked, ...statuses) =>
	asked.catch((error) => {
		if (error instanceof ApiError && statuses.includes(error.status)) return null;
		throw error;
	});

export async function alignedModels() {
	const rowsOf = (/** @type {Replies["models_aligned"]} */ reply) => reply.domain_aligned_models;
	// The API answers 404 if there are no aligned models.
	return (await orNull(callAll("models_aligned", rowsOf), 404)) ?? [];
}

export const baseModels = () => callAll("models_base", (reply) => reply.base_models);
