// plumbline key: manages API keys, which decide who may call what, and how much. Works with or without a running appliance.
import type { Command } from "commander";
import { scopes } from "../contract/endpoint.ts";
import type { KeyRecord, NewKey } from "../domain/access/index.ts";
import { admin, keyFile, refuseSecondKey, saveKey } from "./connection.ts";
import { exitOf } from "./exit-codes.ts";
import { listOf, optional, said, timeOf, whole } from "./options.ts";
import { answers, speakFailure, table } from "./output.ts";

interface CreateOptions {
  user: string;
  name?: string;
  save?: boolean;
  scopes?: string;
  expires?: string;
  requestsPerMinute?: string;
  tokensPerMinute?: string;
  tokensPerDay?: string;
}

export function register(program: Command): void {
  const key = program.command("key").description("API keys: create, list, rotate, revoke");

  const create = key
    .command("create")
    .description("create a key and print it; it is never shown again")
    .requiredOption("--user <name>", "the user that the key belongs to; created if it does not exist yet")
    .option("--name <text>", "what the key is for")
    .option("--save", "also store the key in ~/.config/plumbline/key, for this command line to use")
    .option(
      "--scopes <list>",
      `what the key may do, separated by commas: ${scopes.join(", ")} (default: all but admin)`,
    )
    .option("--expires <when>", "a time such as 2027-01-31T00:00:00Z, or a number of days from now such as 90d")
    .option("--requests-per-minute <n>", "maximum requests a minute")
    .option("--tokens-per-minute <n>", "maximum tokens a minute")
    .option("--tokens-per-day <n>", "maximum tokens a day (UTC)");
  answers<CreateOptions>(create, async (options) => {
    if (options.save) await refuseSecondKey();
    const made = (await admin("key.create", settingsOf(options))) as NewKey;
    if (!options.save) return { json: made, text: made.key };
    try {
      await saveKey(made.key);
    } catch (error) {
      speakFailure(error, false);
      return { json: { ...made, saved: null }, text: made.key, exit: exitOf(error) };
    }
    return { json: { ...made, saved: keyFile() }, text: made.key };
  });

  const list = key.command("ls").description("list keys, by their first characters");
  answers(list, async () => {
    const keys = (await admin("key.list")) as KeyRecord[];
    const rows = keys.map((one) => [
      one.id,
      `${one.prefix}…`,
      one.user,
      one.name,
      one.scopes.join(","),
      limitsText(one),
      one.created_at,
      one.expires_at ?? "",
      one.revoked_at ?? "",
    ]);
    const head = ["id", "key", "user", "name", "scopes", "limits", "created", "expires", "revoked"];
    return { json: { keys }, text: table([head, ...rows]) };
  });

  const rotate = key
    .command("rotate")
    .description("give a key a new secret and print it; the old secret works until the grace period ends")
    .argument("<id>", "the key's id, from key ls")
    .option("--grace <seconds>", "how long the old secret works (default: an hour)");
  answers<{ grace?: string }>(rotate, async ({ grace }, id) => {
    const seconds = grace === undefined ? {} : { grace_seconds: whole("--grace", grace) };
    const made = (await admin("key.rotate", { id, ...seconds })) as NewKey;
    return { json: made, text: made.key };
  });

  const revoke = key
    .command("revoke")
    .description("revoke a key; the next request with it is refused")
    .argument("<id>", "the key's id, from key ls");
  answers(revoke, async (_, id) => {
    await admin("key.revoke", { id });
    return { json: { id, revoked: true }, text: `${id} is revoked` };
  });
}

const settingsOf = ({ user, name, expires, ...options }: CreateOptions): object =>
  said({
    user,
    name,
    scopes: options.scopes === undefined ? undefined : listOf(options.scopes),
    expires_at: expires === undefined ? undefined : timeOf(expires),
    requests_per_minute: optional(whole, "--requests-per-minute", options.requestsPerMinute),
    tokens_per_minute: optional(whole, "--tokens-per-minute", options.tokensPerMinute),
    tokens_per_day: optional(whole, "--tokens-per-day", options.tokensPerDay),
  });

const limitsText = (one: KeyRecord): string =>
  [
    [one.requests_per_minute, "req/min"],
    [one.tokens_per_minute, "tok/min"],
    [one.tokens_per_day, "tok/day"],
  ]
    .filter(([value]) => value !== null)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(", ");
