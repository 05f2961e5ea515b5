// System: memory, disk, seats, work, versions, and who did what.
import { call, callText, orNull } from "../api/client.js";
import { fill, h } from "../parts/dom.js";
import { every, facts, head, section } from "../parts/page.js";
import { bar } from "../parts/progress.js";
import { badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { bytes, duration, number, t, when, word } from "../shell/language.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {{ name: string, labels: Record<string, string>, value: number }} Sample */

/** @param {View} view */
export async function show(view) {
	const { signal, place } = view;
	const state = h("div", {});
	const raw = h("code", {});
	const draw = async () => {
		const [health, ready, text] = await Promise.all([
			call("system_health", { signal }),
			// Not ready is an answer here, not a failure.
			orNull(call("system_ready", { signal }), 503),
			orNull(callText("system_metrics", { signal }), 401, 403, 422),
		]);
		fill(state, stateOf(health, ready, samplesOf(text ?? "")));
		raw.textContent = text ?? t("system.nometrics");
	};
	const acts = await orNull(call("audit_list", { query: { limit: 50 }, signal }), 403);
	await draw();
	fill(
		place,
		head(t("system.title"), { lead: t("system.lead") }),
		state,
		section(t("system.audit"), acts === null ? h("p", { class: "soft" }, t("system.noaudit")) : auditOf(acts.acts)),
		h(
			"details",
			{ class: "card" },
			h("summary", {}, t("system.metrics")),
			h("p", { class: "small" }, t("system.metrics.hint")),
			h("pre", { tabindex: "0", role: "region", "aria-label": t("system.metrics") }, raw),
		),
		section(
			t("system.more"),
			h("p", {}, t("system.log")),
			h("p", {}, h("a", { href: "/docs" }, t("system.docs")), " · ", h("a", { href: "/openapi.json" }, "/openapi.json")),
		),
	);
	void every(signal, 5_000, draw);
}

/** @param {Replies["system_health"]} health @param {Replies["system_ready"] | null} ready @param {Sample[]} samples */
function stateOf(health, ready, samples) {
	const one = (/** @type {string} */ name, /** @type {Record<string, string>} */ labels = {}) =>
		samples.find(
			(sample) => sample.name === `plumbline_${name}` && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
		);
	const all = (/** @type {string} */ name) => samples.filter((sample) => sample.name === `plumbline_${name}`);
	const engine = one("build_info")?.labels.engine;
	const pools = ["machine", "gpu"].flatMap((pool) => {
		const total = one("memory_bytes", { pool });
		return total ? [{ pool, total: total.value, granted: one("memory_granted_bytes", { pool })?.value ?? 0 }] : [];
	});
	const disk = one("disk_free_bytes");
	const resident = samples.find(({ name }) => name === "process_resident_memory_bytes");
	const jobs = all("jobs").filter(({ value }) => value > 0);
	return [
		health.degraded.map((text) => notice("bad", h("p", {}, text))),
		ready === null && notice("warn", h("p", {}, t("system.notready"))),
		h(
			"div",
			{ class: "columns" },
			section(
				t("system.state"),
				facts([
					[t("field.status"), badge(health.status, word("status", health.status))],
					[t("system.version"), health.version],
					[t("system.engine"), engine ?? "–"],
					[t("system.uptime"), duration(health.uptime_seconds)],
					[t("system.resident"), resident ? bytes(resident.value) : "–"],
				]),
			),
			section(
				t("system.memory"),
				pools.map(({ pool, total, granted }) =>
					h(
						"div",
						{ class: "progress" },
						bar(word("pool", pool), granted / total),
						h("p", { class: "small" }, `${word("pool", pool)}: ${t("system.granted", { granted: bytes(granted), total: bytes(total) })}`),
					),
				),
				pools.length > 0 && !pools.some(({ pool }) => pool === "gpu") && h("p", { class: "small" }, t("system.nogpu")),
				disk &&
					facts([
						[t("system.disk"), bytes(disk.value)],
						[t("system.database"), bytes(one("database_bytes")?.value ?? 0)],
						[t("system.low"), bytes(one("disk_low_bytes")?.value ?? 0)],
					]),
			),
		),
		all("seats").length > 0 &&
			section(
				t("system.seats"),
				table(
					t("system.seats"),
					[
						{ head: t("field.base"), cell: (seat) => seat.labels.base ?? "" },
						{ head: t("system.all"), cell: (seat) => number(seat.value), numeric: true },
						{
							head: t("system.busy"),
							cell: (seat) => number(one("seats_busy", seat.labels)?.value ?? 0),
							numeric: true,
						},
						{
							head: t("system.waiting"),
							cell: (seat) => number(one("requests_waiting", seat.labels)?.value ?? 0),
							numeric: true,
						},
					],
					all("seats"),
				),
			),
		jobs.length > 0 &&
			section(
				t("system.jobs"),
				table(
					t("system.jobs"),
					[
						{ head: t("system.kind"), cell: (job) => word("job", job.labels.kind ?? "") },
						{ head: t("field.status"), cell: (job) => job.labels.state ?? "" },
						{ head: t("system.count"), cell: (job) => number(job.value), numeric: true },
					],
					jobs,
				),
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

/** @param {Replies["audit_list"]["acts"]} acts */
const auditOf = (acts) =>
	table(
		t("system.audit"),
		[
			{ head: t("field.at"), cell: (one) => when(one.at) },
			{ head: t("system.actor"), cell: (one) => one.actor },
			{ head: t("field.act"), cell: (one) => h("code", {}, one.act) },
			{ head: t("system.subject"), cell: (one) => h("code", {}, one.subject) },
		],
		acts,
	);
