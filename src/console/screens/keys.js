// Keys and usage: who may do what, and how many tokens it took.
import { call, callAll, orNull } from "../api/client.js";
import { confirmAct, openDialog } from "../parts/dialog.js";
import { fill, h } from "../parts/dom.js";
import { form } from "../parts/form.js";
import { actButton, code, head, section } from "../parts/page.js";
import { badge, notice } from "../parts/states.js";
import { table } from "../parts/table.js";
import { number, t, when, word } from "../shell/language.js";
import { modelOptions, nameIn } from "./choices.js";

/** @import { Replies } from "../api/types.d.ts" */
/** @import { View } from "../shell/router.js" */
/** @typedef {Replies["keys_list"]["keys"][number]} Key */

const scopes = ["inference", "documents", "alignments", "models", "agents", "keys", "admin"];

/** @param {View} view */
export async function show(view) {
	const { signal, place, query } = view;
	const user = query.get("user") ?? undefined;
	const [keys, usage, users, models] = await Promise.all([
		callAll("keys_list", (reply) => reply.keys, { query: { user }, signal }),
		call("usage_list", { query: { user, limit: 100 }, signal }),
		orNull(
			callAll("users_list", (reply) => reply.users, { signal }),
			403,
		),
		modelOptions(signal),
	]);
	fill(
		place,
		head(t("keys.title"), { lead: t("keys.lead") }),
		users && usersOf(users, user),
		section(t("keys.all"), keysOf(view, keys)),
		section(t("keys.new"), h("div", { class: "grid-form" }, newForm(view))),
		section(t("usage.title"), usageOf(usage, keys, models)),
	);
}

/** @param {Replies["users_list"]["users"]} users @param {string | undefined} chosen */
function usersOf(users, chosen) {
	const select = h(
		"select",
		{},
		h("option", { value: "" }, t("keys.mine")),
		users.map(({ name, live_keys }) => h("option", { value: name, selected: name === chosen }, `${name} (${number(live_keys)})`)),
	);
	select.addEventListener("change", () => {
		location.hash = select.value === "" ? "#/keys" : `#/keys?user=${encodeURIComponent(select.value)}`;
	});
	return h("div", { class: "filters" }, h("label", {}, t("keys.of"), select));
}

/** @param {Key} key */
const stateOf = ({ revoked_at, expires_at }) =>
	revoked_at !== null ? "revoked" : expires_at !== null && Date.parse(expires_at) < Date.now() ? "expired" : "live";

/** @param {View} view @param {Key[]} keys */
const keysOf = (view, keys) =>
	table(
		t("keys.all"),
		[
			{ head: t("keys.prefix"), cell: (one) => h("code", {}, `${one.prefix}…`) },
			{ head: t("field.name"), cell: (one) => one.name || "–" },
			{ head: t("keys.scopes"), cell: (one) => one.scopes.join(", ") },
			{ head: t("field.status"), cell: (one) => badge(stateOf(one), word("key", stateOf(one))) },
			{ head: t("keys.expires"), cell: (one) => when(one.expires_at) },
			{ head: t("keys.used"), cell: (one) => when(one.last_used_at) },
			{
				head: t("field.act"),
				cell: (one) =>
					stateOf(one) === "live" && h("span", { class: "actions small-buttons" }, rotateButton(view, one), revokeButton(view, one)),
			},
		],
		keys,
	);

/** @param {View} view @param {Key} key */
function rotateButton(view, { id, prefix }) {
	return actButton(
		t("keys.rotate"),
		async () => {
			if (!(await confirmAct(t("keys.rotate.of", { prefix }), t("keys.rotate.text"), t("keys.rotate")))) return;
			showOnce((await call("keys_rotate", { params: { key_id: id }, body: {} })).key, view);
		},
		{ onError: view.fail },
	);
}

/** @param {View} view @param {Key} key */
function revokeButton(view, { id, prefix }) {
	return actButton(
		t("keys.revoke"),
		async () => {
			if (!(await confirmAct(t("keys.revoke.of", { prefix }), t("keys.revoke.text"), t("keys.revoke")))) return;
			await call("keys_revoke", { params: { key_id: id } });
			await view.reload();
		},
		{ kind: "danger", onError: view.fail },
	);
}

/** @param {string} key @param {View} view */
function showOnce(key, view) {
	const dialog = openDialog(t("keys.once"), notice("warn", h("p", {}, t("claim.keep"))), code(key, t("signin.key")));
	dialog.addEventListener("close", () => void view.reload());
}

/** @param {View} view */
function newForm(view) {
	return form(
		[
			{ name: "name", label: t("keys.for"), hint: t("keys.for.hint") },
			{
				name: "user",
				label: t("keys.user"),
				hint: t("keys.user.hint"),
				more: { pattern: "[A-Za-z0-9][A-Za-z0-9._@\\-]{0,99}" },
			},
			{
				name: "scopes",
				label: t("keys.scopes"),
				type: "checks",
				options: scopes.map((value) => ({ value, text: word("scope", value), chosen: value !== "admin" })),
			},
			{ name: "expires_at", label: t("keys.expires"), type: "datetime-local", hint: t("field.optional") },
			{
				name: "requests_per_minute",
				label: t("keys.rpm"),
				type: "number",
				hint: t("keys.unlimited"),
				more: { min: 1 },
			},
			{ name: "tokens_per_minute", label: t("keys.tpm"), type: "number", hint: t("keys.unlimited"), more: { min: 1 } },
			{ name: "tokens_per_day", label: t("keys.tpd"), type: "number", hint: t("keys.unlimited"), more: { min: 1 } },
		],
		{
			submit: t("keys.make"),
			async onSubmit({ expires_at, ...values }) {
				const body = { ...values, ...(expires_at ? { expires_at: new Date(String(expires_at)).toISOString() } : {}) };
				showOnce((await call("keys_create", { body, signal: view.signal })).key, view);
			},
		},
	);
}

/** @param {Replies["usage_list"]} usage @param {Key[]} keys @param {import("./choices.js").Options} models */
function usageOf({ usage, total }, keys, models) {
	if (usage.length === 0) return h("p", { class: "soft" }, t("usage.none"));
	const prefix = (/** @type {string} */ id) => keys.find((one) => one.id === id)?.prefix ?? id;
	return [
		h(
			"p",
			{},
			t("usage.total", {
				requests: total.requests,
				n: total.requests,
				tokens: total.prompt_tokens + total.completion_tokens,
			}),
		),
		table(
			t("usage.title"),
			[
				{ head: t("usage.day"), cell: (one) => one.day },
				{ head: t("field.model"), cell: (one) => nameIn(models, one.model_id) },
				{ head: t("keys.prefix"), cell: (one) => h("code", {}, `${prefix(one.key_id)}…`) },
				{ head: t("usage.requests"), cell: (one) => number(one.requests), numeric: true },
				{ head: t("usage.prompt"), cell: (one) => number(one.prompt_tokens), numeric: true },
				{ head: t("usage.completion"), cell: (one) => number(one.completion_tokens), numeric: true },
			],
			usage,
		),
	];
}
