// System: memory by holder, disk, slots, jobs, versions, the log, and the audit of who did what.
import { call, callIfMay, callText, may, orNull } from "../api/client.js";
import {
	badge,
	bar,
	bytes,
	details,
	duration,
	every,
	facts,
	fill,
	h,
	head,
	inHand,
	link,
	notice,
	number,
	pagedTable,
	prose,
	section,
	smallPrint,
	statusBadge,
	t,
	table,
	when,
	word,
} from "../ui.js";

import { linkAs, namesOf, withNames } from "./choices.js";

/** @typedef {{ name: string, labels: Record<string, string>, value: number }} Sample */

/** @param {View} view */
export async function show(view) {
	const { signal, place } = view;
	const state = h("div");
	const raw = h("code");
	const draw = async () => {
		const [health, ready, memory, text] = await Promise.all([
			call("system_health"),
			// 503 means not ready, which is an answer here and not a failure.
			orNull(call("system_ready"), 503),
			callIfMay("system_memory"),
			may("system_metrics") ? callText("system_metrics") : "",
		]);
		fill(state, await stateOf(health, ready, memory, samplesOf(text)));
		raw.textContent = text;
	};
	await draw();
	fill(
		place,
		head(t("nav.system"), { lead: t("system.lead") }),
		state,
		may("audit_list") ? await forAdministrators(view, raw) : notice("plain", t("system.noadmin")),
		section(
			t("system.more"),
			h("p", prose(t("system.logs"))),
			h("p", link("/docs", t("system.docs")), " · ", link("/openapi.json", t("system.openapi"))),
		),
	);
	void every(signal, 5_000, draw);
}

/** @param {View} view @param {HTMLElement} raw */
const forAdministrators = async (view, raw) => [
	section(t("system.log"), await logOf(view)),
	section(t("system.audit"), await auditOf(view)),
	details(
		t("system.metrics"),
		h("p.small", prose(t("system.metrics.hint"))),
		h("pre", { tabindex: "0", role: "region", "aria-label": t("system.metrics") }, raw),
	),
];

/** @param {View} view */
async function logOf(view) {
	const place = h("div");
	const level = h(
		"select",
		["info", "warn", "error"].map((value) => h("option", { value }, word("level", value))),
	);
	const draw = async () => {
		const { lines } = await call("system_log", { query: { level: level.value, limit: 500 } });
		const { element } = await pagedTable(
			view,
			t("system.log"),
			[
				[t("field.at"), (one) => when(one.at, "medium"), "when"],
				[t("field.level"), (one) => badge(one.level, word("level", one.level))],
				[t("field.event"), (one) => h("code", one.event)],
				[t("field.fields"), toldOf],
			],
			inHand(lines),
			{ name: "log" },
		);
		fill(place, element);
	};
	level.addEventListener("change", () => void draw().catch(view.fail));
	await draw();
	return [h("div.filters", h("label", t("field.level"), level)), place];
}

/**
 * Shows what an event says: a request by its method, path, status and time, other events by their fields. Ids are folded away.
 * @param {Replies["system_log"]["lines"][number]} line
 */
function toldOf({ event, fields }) {
	const said = (/** @type {unknown} */ value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
	const all = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
	const isId = (/** @type {string} */ name) => /Id$/.test(name);
	const { method, path, status, ms } = /** @type {Record<string, unknown>} */ (fields);
	const isRequest = event === "request" && path !== undefined;
	const told = isRequest
		? [`${method} ${path}`, said(status), `${ms} ms`]
		: all.flatMap(([name, value]) => (isId(name) ? [] : `${name}: ${said(value)}`));
	const ids = all.filter(([name]) => isId(name));
	return [
		h("span.small", told.join(" · ")),
		ids.length > 0 &&
			details(
				t("system.ids"),
				ids.map(([name, value]) => smallPrint(name, h("code", said(value)))),
			),
	];
}

/** @param {View} view */
async function auditOf(view) {
	/** @type {Map<string, string | undefined>} */
	let names = new Map();
	const load = async (/** @type {object} */ query) => {
		const { acts } = await call("audit_list", { query: { ...query } });
		names = new Map([...(await namesOf(acts.map((one) => one.subject))), ...(await keysIn(acts))]);
		return { rows: acts };
	};
	const { element } = await pagedTable(
		view,
		t("system.audit"),
		[
			[t("field.at"), (one) => when(one.at, "medium"), "when"],
			[t("system.actor"), (one) => (one.actor === "(console)" ? t("system.machineuser") : one.actor)],
			[
				t("field.act"),
				(one) =>
					one.act
						.split(".")
						.map((part) => word("audited", part))
						.join(": "),
			],
			[
				t("system.subject"),
				({ subject }) => (subject.startsWith("key_") ? (names.get(subject) ?? h("code", subject)) : linkAs(subject, names.get(subject))),
			],
		],
		load,
		{ name: "audit" },
	);
	return element;
}

/**
 * Returns the name and prefix of keys by their id, for acts on keys.
 * @param {Replies["audit_list"]["acts"]} acts @returns {Promise<[string, string][]>}
 */
async function keysIn(acts) {
	const isMissing = acts.some(({ subject }) => subject.startsWith("key_"));
	if (!isMissing) return [];
	const users = new Set(acts.map(({ detail }) => /** @type {{ user?: string }} */ (detail).user));
	const lists = await Promise.all([...users].map((user) => callIfMay("keys_list", { query: { user, limit: 100 } })));
	return lists.flatMap((one) => (one?.keys ?? []).map(({ id, prefix, name }) => [id, [name, `${prefix}…`].filter(Boolean).join(" · ")]));
}

/**
 * @param {Replies["system_health"]} health
 * @param {Replies["system_ready"] | null} ready
 * @param {Replies["system_memory"] | null} memory
 * @param {Sample[]} samples
 */
async function stateOf(health, ready, memory, samples) {
	const one = (/** @type {string} */ name, /** @type {Record<string, string>} */ labels = {}) =>
		samples.find((sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
	const all = (/** @type {string} */ name) => samples.filter((sample) => sample.name === name);
	const slotsOf = (/** @type {string} */ name, /** @type {Sample} */ { labels }) => number(one(name, labels)?.value ?? 0);
	const bytesOf = (/** @type {string} */ name) => bytes(one(name)?.value ?? 0);
	const jobs = all("plumbline_jobs").filter(({ value }) => value > 0);
	const slots = all("plumbline_slots");
	const lowest = one("plumbline_disk_low_bytes")?.value ?? 0;
	const bases = await namesOf(slots.map(({ labels }) => labels.base ?? ""));
	return [
		health.degraded.map((text) => notice("bad", text)),
		ready === null && notice("warn", t("system.notready")),
		h(
			"div.columns",
			section(
				t("system.state"),
				facts(
					/** @type {[string, Child][]} */ ([
						[t("field.status"), statusBadge(health.status)],
						[t("field.version"), health.version],
						[t("system.uptime"), duration(health.uptime_seconds)],
						[t("system.engine"), one("plumbline_build_info")?.labels.engine],
						[t("system.resident"), bytesOf("process_resident_memory_bytes")],
						[t("system.disk"), bytesOf("plumbline_disk_free_bytes")],
						[t("system.database"), bytesOf("plumbline_database_bytes")],
						[t("system.low"), lowest === 0 ? t("system.nolimit") : bytes(lowest)],
					]).slice(0, samples.length > 0 ? 8 : 3),
				),
			),
			memory && section(t("system.memory"), await memoryOf(memory)),
		),
		slots.length > 0 &&
			section(
				t("system.pools"),
				table(
					t("system.pools"),
					[
						[t("field.base"), ({ labels: { base = "" } }) => linkAs(base, bases.get(base))],
						[t("system.slots"), (slot) => slot.value],
						[t("system.busy"), (slot) => slotsOf("plumbline_slots_busy", slot), "numeric"],
						[t("system.waiting"), (slot) => slotsOf("plumbline_requests_waiting", slot), "numeric"],
					],
					slots,
				),
			),
		jobs.length > 0 &&
			section(
				t("system.jobs"),
				table(
					t("system.jobs"),
					[
						[t("models.kind"), (job) => word("job", job.labels.kind ?? "")],
						[t("field.status"), (job) => jobState(job.labels.state ?? "")],
						[t("system.count"), (job) => job.value],
					],
					jobs,
				),
			),
	];
}

/** @param {string} state of a job */
const jobState = (state) => word("status", state === "succeeded" ? "COMPLETED" : state.toUpperCase(), state);

/** @param {Replies["system_memory"]} memory */
async function memoryOf({ devices, threads, grants }) {
	const held = await Promise.all(grants.map(async (one) => ({ ...one, holder: await withNames(one.holder) })));
	return [
		devices.map(({ device, total_bytes, free_bytes }) => {
			const granted = total_bytes - free_bytes;
			const words = t("system.granted", { granted: bytes(granted), total: bytes(total_bytes) });
			return h("div.progress", bar(word("pool", device), granted / total_bytes), h("p.small", `${word("pool", device)}: ${words}`));
		}),
		!devices.some(({ device }) => device === "gpu") && smallPrint(t("system.nogpu")),
		smallPrint(t("system.threads", { free: threads.free, all: threads.total })),
		grants.length > 0 &&
			table(
				t("system.memory"),
				[
					[t("system.holder"), (one) => one.holder],
					[t("pool.machine"), (one) => bytes(one.machine_bytes), "numeric"],
					[t("pool.gpu"), (one) => bytes(one.gpu_bytes), "numeric"],
					[t("alignment.threads"), (one) => one.threads],
				],
				held,
			),
	];
}

/** Reads Prometheus' text format. @param {string} text @returns {Sample[]} */
function samplesOf(text) {
	return [...text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(([, name = "", labels = "", value]) => ({
		name,
		labels: Object.fromEntries([...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, said]) => [key, said])),
		value: Number(value),
	}));
}
