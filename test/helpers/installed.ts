// An installation in a folder of its own, and other versions of plumbline to upgrade it to: trees with another number, and with what
// else differs. Nothing of it needs root.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { installation, places } from "../../src/base/config.ts";
import { type Child, type Finished, finish, startProcess } from "../../src/base/processes.ts";
import { type Client, createClient } from "../../src/cli/client.ts";
import { awaitHealth } from "../../src/cli/installation/health.ts";
import { type Installation, type Layout, layout } from "../../src/cli/installation/layout.ts";
import { linkDurably, placeProgram } from "../../src/cli/installation/program.ts";
import { holderOf, type Service, serviceOf } from "../../src/cli/installation/service.ts";
import { readMigrations } from "../../src/store/migrate.ts";
import { schemaVersion } from "../../src/store/snapshot.ts";
import { freePort } from "./free-port.ts";

const startMs = 240_000;
const limits = { timeoutMs: 480_000, maxBytes: 1 << 20 };

/** What differs in a version from this one, besides its number. */
export interface Difference {
  /** It has one more migration. */
  migrates?: boolean;
  /** It ends when its database is open. */
  failsToStart?: boolean;
}

/** Makes a version, and returns its program. */
export function makeVersion(folder: string, version: string, { migrates, failsToStart }: Difference = {}): string {
  const tree = join(folder, version);
  mkdirSync(join(tree, "bin"), { recursive: true });
  cpSync(join(installation, "src"), join(tree, "src"), { recursive: true });
  cpSync(join(installation, "bin/plumbline"), join(tree, "bin/plumbline"));
  for (const name of ["node_modules", "config", "build"]) symlinkSync(join(installation, name), join(tree, name));
  const facts = JSON.parse(readFileSync(join(installation, "package.json"), "utf8")) as object;
  writeFileSync(join(tree, "package.json"), JSON.stringify({ ...facts, version }));
  if (migrates) {
    const number = String(readMigrations().length + 1).padStart(4, "0");
    writeFileSync(join(tree, `src/store/migrations/${number}_more.sql`), "CREATE TABLE more(id TEXT) STRICT;\n");
  }
  if (failsToStart) {
    const serve = join(tree, "src/cli/serve.ts");
    const text = readFileSync(serve, "utf8");
    const broken = text.replace("return await house.listen();", 'throw new Error("this version does not start");');
    assert.notEqual(broken, text);
    writeFileSync(serve, broken);
  }
  return join(tree, "bin/plumbline");
}

export class Installed {
  readonly at: Layout;
  readonly data: string;
  readonly installed: Installation;
  readonly #folder: string;
  #port = 0;
  #client: Client | null = null;
  #service!: Service;

  constructor(folder: string) {
    this.#folder = folder;
    this.at = layout(join(folder, "prefix"));
    this.data = join(folder, "data");
    this.installed = {
      format: 1,
      user: userInfo().username,
      data: this.data,
      environment: join(folder, "plumbline.env"),
      unit: join(folder, "none.service"),
      made_user: false,
    };
  }

  get #env(): Record<string, string> {
    return {
      PLUMBLINE_DATA: this.data,
      PLUMBLINE_PORT: String(this.#port),
      PLUMBLINE_STARTER_MODEL: "none.gguf",
      PLUMBLINE_FREE_DISK: "0",
      PLUMBLINE_LOG: "warn",
    };
  }

  /** Installs a program, starts it, and uploads a document to it. */
  async begin(program: string, version: string): Promise<void> {
    this.#port = await freePort();
    const lines = Object.entries(this.#env).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(this.installed.environment, lines.join(""));
    await placeProgram(program, this.at.programOf(version));
    await linkDurably(version, this.at.current);
    mkdirSync(dirname(this.at.record), { recursive: true });
    writeFileSync(this.at.record, JSON.stringify(this.installed));
    this.#service = await serviceOf(this.installed, this.at);
    await this.start(version);
    const { stdout, stderr } = await this.run("key", "create", "--user", "ann", "--json");
    assert.notEqual(stdout, "", stderr);
    const { key } = JSON.parse(stdout) as { key: string };
    this.#client = createClient(`http://127.0.0.1:${this.#port}`, key);
    await this.upload("first");
  }

  async start(version: string): Promise<void> {
    await awaitHealth(this.installed, version, await this.#service.start(), startMs);
  }

  stop(): Promise<void> {
    return this.#service.stop();
  }

  async upload(name: string): Promise<void> {
    const content = `# ${name}\n\nThe pump of ${name} was inspected by Ada Brook.\n`;
    await this.#client!.api["documents.upload"]({
      files: [{ name: `${name}.md`, mediaType: "text/markdown", content }],
    });
  }

  async documents(): Promise<string[]> {
    const { documents } = await this.#client!.api["documents.list"]({});
    return documents.map(({ name }) => name).sort();
  }

  /** Runs a verb of the version that is current. */
  run(...args: string[]): Promise<Finished> {
    return finish(this.starting(...args), limits);
  }

  /** Starts a verb of the version that is current. */
  starting(...args: string[]): Child {
    return startProcess(this.at.program, args, { env: this.#env });
  }

  upgrading(...args: string[]): Child {
    return startProcess(this.at.program, ["upgrade", ...args, "--prefix", this.at.prefix], { cwd: this.#folder });
  }

  upgrade(...args: string[]): Promise<Finished> {
    return finish(this.upgrading(...args), limits);
  }

  /** Version that answers; null if none does. */
  async version(): Promise<string | null> {
    const answer = await fetch(`http://127.0.0.1:${this.#port}/healthz`).catch(() => null);
    return answer === null ? null : ((await answer.json()) as { version: string }).version;
  }

  schema(): number {
    return schemaVersion(places(this.data).database);
  }

  /** Process that serves; null if none does. */
  pid(): number | null {
    return holderOf(places(this.data).lock);
  }
}
