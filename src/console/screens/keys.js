// Keys and usage: who may do what, and how many requests and tokens were used.
import { call, callAll, may } from "../api/client.js";
import {
	badge,
	code,
	dangerButton,
	dayOf,
	fill,
	form,
	h,
	head,
	notice,
	openDialog,
	optionsOf,
	pagedTable,
	section,
	t,
	when,
	word,
} from "../ui.js";
import { modelOptions, nameIn } from "./choices.js";

/** @typedef {Replies["keys_list"]["keys"][number]} Key */

const scopes = ["inference", "documents", "alignments", "models", "agents", "keys", "admin"];

/** @param {View} view */
export async function show(view) {
	const { place, query } = view;
	const user = query.get("user") ?? undefined;
	const [keys, usage, users] = await Promise.all([keysOf(view, user), usageOf(view, user), callAll("users_list", (reply) => reply.users)]);
	fill(
		place,
		head(t("nav.keys"), { lead: t("keys.lead") }),
		may("users_list") && usersOf(users, user),
		section(t("keys.all"), keys),
		section(t("keys.new"), h("div.grid-form", newForm(view))),
		section(t("usage.title"), usage),
	);
}

/** @param {Replies["users_list"]["users"]} users @param {string | undefined} chosen */
function usersOf(users, chosen) {
	const select = h(
		"select",
		h("option", { value: "" }, t("keys.mine")),
		users.map(({ name, live_keys }) => h("option", { value: name, selected: name === chosen }, t("keys.n", { name, n: live_keys }))),
	);
	select.addEventListener("change", () => {
		location.hash = select.value === "" ? "#/keys" : `#/keys?user=${encodeURIComponent(select.value)}`;
	});
	return h("div.filters", h("label", t("keys.user"), select));
}

/** @param {Key} key */
const stateOf = ({ revoked_at, expires_at }) =>
	revoked_at !== null ? "revoked" : expires_at !== null && Date.parse(expires_at) < Date.now() ? "expired" : "live";

/** Shows scopes by their names in the API, which its texts and errors use too. @param {Key} key */
const scopesOf = ({ scopes }) => scopes.map((one, at) => [at > 0 && ", ", h("code", one)]);

/** @param {View} view @param {string | undefined} user */
const keysOf = async (view, user) =>
	(
		await pagedTable(
			view,
			t("keys.all"),
			[
				[t("keys.prefix"), (one) => h("code", `${one.prefix}…`)],
				[t("field.name"), (one) => one.name],
				[t("keys.scopes"), (one) => (one.scopes.length === scopes.length ? t("filter.all") : scopesOf(one))],
				[t("field.status"), (one) => badge(stateOf(one), word("key", stateOf(one)))],
				[t("keys.expires"), (one) => when(one.expires_at, "short", t("state.never")), "when"],
				[t("agents.used"), (one) => when(one.last_used_at, "short", t("state.never")), "when"],
				[t("field.acts"), (one) => stateOf(one) === "live" && actsOf(view, one)],
			],
			async (query) => ({ rows: (await call("keys_list", { query: { ...query, user } })).keys }),
		)
	).element;

/** @param {View} view @param {Key} key */
function actsOf(view, { id, prefix }) {
	const params = id;
	const rotate = async () => showOnce((await call("keys_rotate", { params, body: {} })).key, view);
	const revoke = () => call("keys_revoke", { params }).then(view.reload);
	return h(
		"span.actions.small-buttons",
		dangerButton(view, t("keys.rotate"), t("keys.rotate.of", { prefix }), t("keys.rotate.text"), rotate),
		dangerButton(view, t("keys.revoke"), t("keys.revoke.of", { prefix }), t("keys.revoke.text"), revoke),
	);
}

/** @param {string} key @param {View} view */
function showOnce(key, view) {
	const dialog = openDialog(t("keys.once"), [notice("warn", t("claim.keep")), code(key, t("signin.key"))]);
	dialog.addEventListener("close", () => void view.reload());
}

/** @param {View} view */
function newForm(view) {
	const type = /** @type {const} */ ("number");
	const limits = /** @type {const} */ ([
		["requests_per_minute", "keys.rpm"],
		["tokens_per_minute", "keys.tpm"],
		["tokens_per_day", "keys.tpd"],
	]);
	return form(
		[
			{ name: "name", label: t("field.name"), hint: t("keys.for.hint") },
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
				options: optionsOf(scopes, "scope").map((one) => ({ ...one, chosen: one.value === "inference" })),
			},
			{ name: "expires_at", label: t("keys.expires"), type: "datetime-local", hint: t("keys.expires.hint") },
			...limits.map(([name, label]) => ({ name, label: t(label), type, hint: t("keys.unlimited"), more: { min: 1 } })),
		],
		{
			submit: t("keys.make"),
			async onSubmit({ expires_at, ...values }) {
				const body = { ...values, ...(expires_at ? { expires_at: new Date(String(expires_at)).toISOString() } : {}) };
				showOnce((await call("keys_create", { body })).key, view);
			},
		},
	);
}

/** @param {View} view @param {string | undefined} user */
async function usageOf(view, user) {
	/** @type {Replies["usage_list"]["total"] | undefined} */
	let sums;
	const [models, keys] = await Promise.all([modelOptions(), callAll("keys_list", (reply) => reply.keys, { query: { user } })]);
	const prefix = (/** @type {string} */ id) => keys.find((one) => one.id === id)?.prefix ?? id;
	const { element, isEmpty } = await pagedTable(
		view,
		t("usage.title"),
		[
			[t("usage.day"), (one) => dayOf(one.day)],
			[t("field.model"), (one) => nameIn(models, one.model_id)],
			[t("keys.prefix"), (one) => h("code", `${prefix(one.key_id)}…`)],
			[t("usage.requests"), (one) => one.requests],
			[t("usage.prompt"), (one) => one.prompt_tokens],
			[t("usage.completion"), (one) => one.completion_tokens],
		],
		async (query) => {
			const { usage, total } = await call("usage_list", { query: { ...query, user } });
			sums = total;
			return { rows: usage };
		},
		{ name: "usage" },
	);
	if (isEmpty() || !sums) return h("p.soft", t("usage.none"));
	const { requests, prompt_tokens, completion_tokens } = sums;
	const tokens = prompt_tokens + completion_tokens;
	return [h("p", t("usage.total", { requests, n: requests, tokens })), element];
}
