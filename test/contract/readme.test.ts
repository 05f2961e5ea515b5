// The README's requests are ones that the contract takes: paths that there are, and bodies with the fields that they have.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { installation } from "../../src/base/config.ts";
import type { Endpoint } from "../../src/contract/endpoint.ts";
import { contract } from "../../src/contract/index.ts";
import { compile } from "../../src/contract/validate.ts";

const readme = readFileSync(join(installation, "README.md"), "utf8");
const script = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].find(([, block]) => block!.includes("get()"))![1]!;
const endpoints = Object.values<Endpoint>(contract);

const methods = { get: "GET", post: "POST", upload: "POST", delete: "DELETE" } as const;

interface Asked {
  line: string;
  verb: keyof typeof methods;
  path: string;
  query: string;
  body: string | null;
}

/** What the shell would send: variables stand for ids. */
function requestsOf(text: string): Asked[] {
  const variables = new Map([...text.matchAll(/^(\w+)='(.*)'$/gm)].map(([, name, value]) => [name!, value!]));
  return [...text.matchAll(/^(?:\w+=\$\()?(get|post|upload|delete) "?([^\s"|)]+)"?(?: ('[^|\n]*'|"\$\w+"))?/gm)].map(
    ([line, verb, target, given]) => {
      const [path, query = ""] = target!.split("?");
      const named = /^"\$(\w+)"$/.exec(given ?? "");
      const text = named ? variables.get(named[1]!)! : given?.replace(/^'|'$/g, "");
      return {
        line,
        verb: verb as Asked["verb"],
        path: `/api/v3/${path}`,
        query,
        body: text?.replaceAll(/'\$\w+'/g, "x") ?? null,
      };
    },
  );
}

/** A variable is an id. */
const leadsTo = (pattern: string, path: string): boolean => {
  const [parts, asked] = [pattern.split("/"), path.split("/")];
  return (
    parts.length === asked.length &&
    parts.every((part, at) => (part.startsWith("{") ? /^\$\w+$/.test(asked[at]!) : part === asked[at]))
  );
};

const requests = requestsOf(script);

test("the whole way is there: from documents to an agent, and back", () => {
  assert.ok(requests.length > 20, String(requests.length));
  for (const part of [
    "documents/upload",
    "benchmarks/create",
    "alignment-projects/create",
    "deploy-model",
    "chat/completions",
    "agents",
  ])
    assert.ok(
      requests.some(({ path }) => path.includes(part)),
      part,
    );
  assert.ok(requests.filter(({ verb }) => verb === "delete").length >= 5);
});

for (const { line, verb, path, query, body } of requests)
  test(line, () => {
    const endpoint = endpoints.find(
      (one) =>
        one.method === methods[verb] && [one.path, ...(one.aliases ?? [])].some((pattern) => leadsTo(pattern, path)),
    );
    assert.ok(endpoint, `${methods[verb]} ${path}`);
    assert.equal(verb === "upload", endpoint.upload !== undefined);
    for (const [name] of new URLSearchParams(query))
      assert.ok(name in ((endpoint.query as { properties: object } | undefined)?.properties ?? {}), name);
    if (endpoint.body === undefined) return;
    const checked = compile(endpoint.body as object)(JSON.parse(body!));
    assert.ok(checked.ok, JSON.stringify(checked));
  });
