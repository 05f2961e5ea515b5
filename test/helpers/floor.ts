// The outer floor alone, over endpoints made up for a test.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfig } from "../../src/base/config.ts";
import { createLog } from "../../src/base/log.ts";
import { noTraces } from "../../src/base/traces.ts";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { type AnyHandler, type Limits, mount } from "../../src/http/mount.ts";
import { createServer } from "../../src/http/server.ts";

export interface Floor {
  url: string;
  folder: string;
  log: Record<string, unknown>[];
  close(): Promise<void>;
}

export const testKey = "pl_test";

export async function testFloor<Name extends string>(
  endpoints: Record<Name, Endpoint>,
  handlers: Record<Name, AnyHandler>,
  limits: Partial<Limits["upload"]> &
    Partial<Pick<Limits, "bodyBytes" | "checkDisk" | "once" | "isKnown">> & { settings?: Record<string, string> } = {},
): Promise<Floor> {
  const folder = await mkdtemp(join(tmpdir(), "plumbline-floor-"));
  const log: Record<string, unknown>[] = [];
  const { bodyBytes = 1 << 20, settings = {}, checkDisk, once, isKnown, ...upload } = limits;
  const pace = { seconds: 60, rate: 0, windowSeconds: 15, ...limits.pace };
  const server = createServer({
    config: readConfig(settings),
    log: createLog("debug", (line) => void log.push(JSON.parse(line) as Record<string, unknown>)),
    authenticate: (key) => (key === testKey ? { userId: "u", userName: "u", keyId: "k" } : null),
    admit: () => {},
    checkWritable: () => {},
    count: () => {},
    traces: noTraces,
    pages: { "/openapi.json": { type: "application/json", render: () => "{}" } },
    files: new Map(),
    routes: mount(endpoints, handlers, {
      bodyBytes,
      modelBytes: 1 << 20,
      pace,
      upload: { folder, fileBytes: 1 << 20, files: 3, freeDisk: 0, pace, ...upload },
      checkDisk: checkDisk ?? (async () => {}),
      once: once ?? (async (_owner, _key, _request, perform) => ({ reply: await perform(() => {}) })),
      isKnown: isKnown ?? (() => false),
    }),
  });
  const { port } = await server.listen(0, "127.0.0.1");
  return {
    url: `http://127.0.0.1:${port}`,
    folder,
    log,
    async close() {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
