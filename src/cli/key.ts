// plumbline key: who may call. Works beside a running appliance and without one.
import type { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { createLog } from "../base/log.ts";
import type { KeyRecord, NewKey } from "../domain/access/index.ts";
import { answers, table } from "./output.ts";

export function register(program: Command): void {
  const key = program.command("key").description("API keys: create, list, revoke");

  const create = key
    .command("create")
    .description("make a key and print it; it is never shown again")
    .requiredOption("--user <name>", "whom it belongs to; made where there is no such user yet");
  answers<{ user: string }>(create, async ({ user }) => {
    const made = (await admin("key.create", { user })) as NewKey;
    return { json: made, text: made.key };
  });

  const list = key.command("ls").description("list keys, by what they begin with");
  answers(list, async () => {
    const keys = (await admin("key.list")) as KeyRecord[];
    const rows = keys.map((one) => [one.id, `${one.prefix}…`, one.user, one.created_at, one.revoked_at ?? ""]);
    return { json: { keys }, text: table([["id", "key", "user", "created", "revoked"], ...rows]) };
  });

  const revoke = key
    .command("revoke")
    .description("revoke a key; the next request with it is refused")
    .argument("<id>", "its id, from key ls");
  answers(revoke, async (_, id) => {
    await admin("key.revoke", { id });
    return { json: { id, revoked: true }, text: `${id} is revoked` };
  });
}

async function admin(verb: string, args: unknown = {}): Promise<unknown> {
  const { callAdmin } = await import("../main.ts");
  return callAdmin(readConfig(), createLog("warn"), verb, args);
}
