// Cases 111–123: lists, ids, tenancy, agents, administration.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import Database from "better-sqlite3";
import { places } from "../../../src/base/config.ts";
import { medianOf } from "../../../src/base/statistics/median.ts";
import { type Endpoint, scopes } from "../../../src/contract/endpoint.ts";
import { contract } from "../../../src/contract/index.ts";
import { readMigrations } from "../../../src/store/migrate.ts";
import { plumbline, startServing } from "../../cli/plumbline.ts";
import { eventually } from "../../helpers/house.ts";
import { fieldsOf, type Kind, named, request } from "../../helpers/matrix.ts";
import { Killed, randomFrom } from "../killed.ts";
import { type Ask, aside, type Case, counted, expects } from "./target.ts";

const documents = "/api/v3/documents";
const closed = Object.entries<Endpoint>(contract).filter(([, { open }]) => !open);
const withoutRequestId = (text: string): string => text.replaceAll(/req_\w+/g, "");

/** How a claim is answered. */
async function claim(url: string, token: string, user: string): Promise<number> {
  const body = JSON.stringify({ token, user });
  return (await fetch(`${url}/claim`, { method: "POST", headers: { "content-type": "application/json" }, body }))
    .status;
}

export const lists: Case[] = [
  {
    id: 111,
    situation: "limit 0, 1, 100, 101, 1e2, 0x10, 10abc, empty, twice; offset −1, 2^63",
    expected: "422, 200, 200, then 422, twice 400; 422 or an empty 200",
    run: (it) =>
      expects([
        ...["0", "101", "1e2", "0x10", "10abc", ""].map(
          (limit) => [limit, () => it.ask(`${documents}?limit=${limit}`), 422] as const,
        ),
        ...["1", "100"].map((limit) => [limit, () => it.ask(`${documents}?limit=${limit}`), 200] as const),
        ["twice", () => it.ask(`${documents}?limit=1&limit=2`), 400],
        ["−1", () => it.ask(`${documents}?offset=-1`), 422],
        ["2^63", () => it.ask(`${documents}?offset=9223372036854775808`), 422, 200],
      ]),
  },
  {
    id: 112,
    situation: "deployment_status in small letters and with SQL; base_model_id=%25",
    expected: "422; 422; exact match only",
    async run(it) {
      const path = "/api/v3/models/aligned";
      const wild = await it.ask(`${path}?base_model_id=%25`);
      assert.ok(wild.status === 404 || wild.body.domain_aligned_models.length === 0, wild.text);
      return `${await expects([
        ["case", () => it.ask(`${path}?deployment_status=deployed`), 422],
        ["SQL", () => it.ask(`${path}?deployment_status=${encodeURIComponent("'; DROP TABLE user; --")}`), 422],
      ])}, ${wild.status} and none`;
    },
  },
  {
    id: 113,
    situation: "ids: 10 KB, %2e%2e, NUL, unicode, another prefix, of another kind",
    expected: "404 or 422, of one form",
    async run(it) {
      const other = (await it.benchmark('{"instruction":"Who?","response":"Ada"}')).body.benchmark_id;
      const ids = ["x".repeat(10_000), "%2e%2e", "a%00b", "%E2%98%83", "model_000000000000000000000000", other];
      return expects(ids.map((id) => [id.slice(0, 20), () => it.ask(`${documents}/${id}`), 404, 422] as const));
    },
  },
  {
    id: 114,
    situation: "every route × every kind of id × another's and one that never was",
    expected: "404, and nothing tells the two apart",
    async run(it) {
      const [adas, bobs, key] = [await it.idsOf("ada"), await it.idsOf("bob"), it.otherKey];
      let tried = 0;
      for (const [name, endpoint] of closed)
        for (const param of [...endpoint.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] as Kind)) {
          const send = async (id: string): Promise<[number, string]> => {
            const response = await request(it, endpoint, bobs, { ...bobs, [param]: id }, key);
            return [response.status, withoutRequestId(await response.text())];
          };
          const foreign = await send(adas[param]);
          const never = await send(adas[param].replace(/.{4}$/, "zzzz"));
          assert.deepEqual(foreign, never, `${name} {${param}}`);
          assert.equal(foreign[0], 404, `${name} {${param}}: ${foreign[1]}`);
          tried += 2;
        }
      for (const [name, endpoint] of closed)
        for (const field of fieldsOf(endpoint, "body").filter((one) => named[one])) {
          const foreign = adas[named[field]!];
          // Several could answer; which of them is not what is asked here.
          const changes = {
            model: it.baseId,
            // The small base cannot be aligned, and is refused before anything that it is to learn.
            base_model_id: it.languageId,
            [field]: field === "document_ids" ? [bobs.document_id, foreign] : foreign,
          };
          const response = await request(it, endpoint, bobs, bobs, key, changes);
          const text = await response.text();
          // Taken from clients that always send one, and not read: what answers is said by the path.
          if (`${name} ${field}` === "agents.completions model") assert.ok(!text.includes(String(foreign)), text);
          else assert.equal(response.status, 404, `${name} ${field}: ${text}`);
          tried++;
        }
      return `${tried} requests`;
    },
  },
  {
    id: 115,
    situation: "the time of 404, of another's document and of one that never was",
    expected: "no difference",
    async run(it) {
      const foreign = (await it.upload(`${documents}/upload`, [["a.txt", "theirs"]], it.otherKey)).body.documents[0]
        .document_id;
      const [a, b]: [number[], number[]] = [[], []];
      for (let n = 0; n < 300; n++) {
        a.push((await it.ask(`${documents}/${foreign}`)).ms);
        b.push((await it.ask(`${documents}/${foreign.replace(/.{4}$/, "zzzz")}`)).ms);
      }
      const [theirs, none] = [medianOf(a), medianOf(b)];
      assert.ok(theirs / none > 0.7 && theirs / none < 1.4, `${theirs} and ${none} ms`);
      return `medians ${theirs.toFixed(2)} and ${none.toFixed(2)} ms of 300 each`;
    },
  },
  {
    id: 116,
    situation: "a list read page by page while documents come and go",
    expected: "none missing that was there all the while",
    async run(it) {
      const { key } = await it.makeKey({ user: "lister" });
      const add = async (n: number) =>
        (await it.upload(`${documents}/upload`, [[`${n}.txt`, `Document ${n}.`]], key)).body.documents[0]
          .document_id as string;
      const stay: string[] = [];
      for (let n = 0; n < 30; n++) stay.push(await add(n));
      let isOver = false;
      // Newest first: what comes moves the others to later pages, what goes of these moves them back to where they were.
      const busy = (async () => {
        for (let n = 100; !isOver; n++) await it.ask(`${documents}/${await add(n)}`, { method: "DELETE", key });
      })();
      let reads = 0;
      for (; reads < 10; reads++) {
        const seen = new Set<string>();
        for (let offset = 0; offset < 40; offset += 5) {
          const page = (await it.ask(`${documents}?limit=10&offset=${offset}`, { key })).body.documents as {
            document_id: string;
          }[];
          for (const { document_id } of page) seen.add(document_id);
        }
        assert.ok(
          stay.every((id) => seen.has(id)),
          "one is missing",
        );
      }
      isOver = true;
      await busy;
      return `${reads} times all 30`;
    },
  },
  {
    id: 117,
    situation: 'agents: message missing, "", 11 MB; foreign; of an undeployed model; 8 at once',
    expected: "422; 422; 413; 404; 409; every one is counted",
    async run(it) {
      const agent = async (base_model: string) =>
        (await it.ask("/api/v3/agents", { json: { name: "a", base_model } })).body.data?.id as string;
      const [mine, sleeping] = [await agent(it.languageId), await agent(it.undeployed)];
      const run =
        (id: string, json: object, more: Ask = {}) =>
        () =>
          it.ask(`/api/v3/agents/${id}/run/`, { json, ...more });
      const came = await expects([
        ["missing", run(mine, {}), 422],
        ["empty", run(mine, { message: "" }), 422],
        ["11 MB", run(mine, { message: "x".repeat(11 << 20) }), 413],
        ["foreign", run(mine, { message: "a" }, { key: it.otherKey }), 404],
        ...(sleeping ? [["undeployed", run(sleeping, { message: "a" }), 409] as const] : []),
      ]);
      const answers = await Promise.all(Array.from({ length: 8 }, () => run(mine, { message: "a" })()));
      const good = answers.filter(({ status }) => status === 200).length;
      const { usage_count } = (await it.ask(`/api/v3/agents/${mine}`)).body.data;
      assert.equal(usage_count, good, counted(answers.map(({ status }) => status)));
      return `${came}; ${good} answered, ${usage_count} counted`;
    },
  },
  {
    id: 118,
    situation: "a bug: a table is not there",
    expected: "500 with the request's id, the log has the rest",
    async run(it) {
      it.store.prepare("ALTER TABLE agent RENAME TO agent_gone").run();
      try {
        const { status, body, headers } = await it.ask("/api/v3/agents");
        assert.equal(status, 500);
        assert.equal(body.detail, "Internal error");
        assert.ok(it.serving.log().includes(headers.get("x-request-id")!));
        return "500, Internal error; the log names the request";
      } finally {
        it.store.prepare("ALTER TABLE agent_gone RENAME TO agent").run();
      }
    },
  },
  {
    id: 119,
    situation: "CR, LF and ANSI in names; a key in the URL",
    expected: "422; the log is one JSON object a line, without the key",
    async run(it) {
      const came = await expects(
        ["a\r\nb", "a\u001b[31mb"].map(
          (name) => [name, () => it.ask("/api/v3/agents", { json: { name, base_model: it.baseId } }), 422] as const,
        ),
      );
      await it.ask(`${documents}?x=${it.key}`);
      const lines = it.serving
        .log()
        .split("\n")
        .filter((line) => line.startsWith("{"));
      for (const line of lines.slice(-50)) JSON.parse(line);
      assert.ok(!it.serving.log().includes(it.key));
      return `${came}; ${lines.length} lines of JSON without it`;
    },
  },
  {
    id: 120,
    situation: "claim: a wrong token, two at once, again; after a restart the old token",
    expected: "401; 200 and 409; 409; 401 or 409",
    async run(it) {
      const settings = {
        PLUMBLINE_DATA: join(it.folder, "claim"),
        PLUMBLINE_STARTER_MODEL: "none.gguf",
        PLUMBLINE_FREE_DISK: "0",
      };
      const tokenOf = (link: string | null): string => link!.split("#")[1]!;
      const first = await startServing(settings);
      const old = tokenOf(first.claim);
      first.child.kill("SIGTERM");
      await first.child.ended;
      const serving = await startServing(settings);
      try {
        const statuses = [
          await claim(serving.address, old, "eve"),
          await claim(serving.address, "x".repeat(40), "eve"),
        ];
        assert.deepEqual(statuses, [401, 401]);
        const token = tokenOf(serving.claim);
        const both = await Promise.all([claim(serving.address, token, "ada"), claim(serving.address, token, "eve")]);
        assert.deepEqual(both.toSorted(), [200, 409]);
        const again = await claim(serving.address, token, "eve");
        assert.equal(again, 409);
        return `${counted(statuses)}, ${counted(both)}, ${again}`;
      } finally {
        serving.child.kill("SIGTERM");
        await serving.child.ended;
      }
    },
  },
  {
    id: 121,
    situation: "the only administrator's key revokes itself",
    expected: "409, or the console makes another",
    run: (it) =>
      aside(it, {}, async (other) => {
        const { keys } = (await other.ask("/api/v3/keys", { key: other.adminKey })).body;
        const own = keys.find((one: { user: string }) => one.user === "root");
        const { status } = await other.ask(`/api/v3/keys/${own.id}`, { method: "DELETE", key: other.adminKey });
        if (status === 409) return "409";
        assert.equal(status, 200);
        const { key } = await other.makeKey({ user: "root", scopes: [...scopes] });
        assert.equal((await other.ask("/api/v3/audit", { key })).status, 200);
        return "200; the console made another, which opens";
      }),
  },
  {
    id: 122,
    situation: "restoring a backup that is newer, or damaged, in the data folder's place",
    expected: "refused with the reason, unchanged",
    async run(it) {
      const data = join(it.folder, "restored");
      const settings = {
        PLUMBLINE_DATA: data,
        PLUMBLINE_STARTER_MODEL: "none.gguf",
        PLUMBLINE_FREE_DISK: "0",
        PLUMBLINE_PORT: "0",
      };
      const first = await startServing(settings);
      first.child.kill("SIGTERM");
      await first.child.ended;
      const db = new Database(places(data).database);
      db.pragma(`user_version = ${readMigrations().length + 1}`);
      db.close();
      const newer = await plumbline(["serve"], settings);
      assert.ok(newer.code !== 0 && /newer/.test(newer.stderr), newer.stderr);
      writeFileSync(places(data).database, "no database at all ".repeat(1000));
      const damaged = await plumbline(["serve"], settings);
      assert.ok(typeof damaged.code === "number" && damaged.code !== 0, "it started");
      assert.ok(readFileSync(places(data).database, "utf8").startsWith("no database"));
      return `newer: status ${newer.code}, damaged: status ${damaged.code}, both unchanged`;
    },
  },
  {
    id: 123,
    situation: "an old database; its migration killed at ten moments",
    expected: "a whole version of the schema, from which the next start goes on",
    async run(it) {
      const migrations = readMigrations();
      const data = join(it.folder, "migrated");
      const it2 = new Killed(
        { PLUMBLINE_DATA: data, PLUMBLINE_STARTER_MODEL: "none.gguf", PLUMBLINE_FREE_DISK: "0" },
        randomFrom(123),
      );
      const versions: number[] = [];
      for (let n = 0; n < 10; n++) {
        rmSync(data, { recursive: true, force: true });
        mkdirSync(data, { recursive: true });
        const old = new Database(places(data).database);
        for (const { sql } of migrations.slice(0, 1 + n)) old.exec(sql);
        old.pragma(`user_version = ${1 + n}`);
        old.close();
        // The old database is copied right before the first migration.
        const copy = `${places(data).database}.before-${2 + n}`;
        await it2.cutStart(async () => {
          await eventually(() => existsSync(copy), 30_000);
          await delay(10 * n);
        });
        const db = new Database(places(data).database);
        const version = Number(db.pragma("user_version", { simple: true }));
        versions.push(version);
        assert.ok(version > n && version <= migrations.length, `version ${version}`);
        assert.equal(db.pragma("integrity_check", { simple: true }), "ok");
        db.close();
        const serving = await startServing({
          PLUMBLINE_DATA: data,
          PLUMBLINE_STARTER_MODEL: "none.gguf",
          PLUMBLINE_FREE_DISK: "0",
        });
        serving.child.kill("SIGTERM");
        await serving.child.ended;
        const end = new Database(places(data).database, { readonly: true });
        assert.equal(Number(end.pragma("user_version", { simple: true })), migrations.length);
        end.close();
      }
      const within = versions.filter((version, n) => version > 1 + n && version < migrations.length);
      assert.ok(within.length > 0, `none was killed among its migrations: ${versions.join(", ")}`);
      return `killed at versions ${versions.join(", ")}; all came to ${migrations.length}`;
    },
  },
];
