// Renders the contract as an OpenAPI 3.1 document. Its schemas are those that requests are checked by, so the two cannot differ.
import { Failure, type FailureCode, failures, invalid } from "../base/errors.ts";
import { failureBody } from "../contract/common.ts";
import { type Endpoint, scopeOfTag, takesIdempotencyKey } from "../contract/endpoint.ts";
import { exampleValues } from "../contract/examples.ts";
import { messagesFailureBody } from "../contract/messages.ts";
import { exampleOf } from "./examples.ts";
import { type Dialect, failureIn } from "./failures.ts";

/** Failures that any endpoint may answer with. */
const everywhere: FailureCode[] = [
  "bad_request",
  "method_not_allowed",
  "request_timeout",
  "misdirected",
  "validation",
  "headers_too_large",
  "internal",
];

/** Further failures of endpoints that may write. */
const onWrites: FailureCode[] = ["upgrade_on_trial"];

type Json = Record<string, unknown>;

/**
 * Returns the document. `upstreams` are the values of X-Provider on endpoints that forward. On other endpoints, and without upstreams,
 * every value is refused, so the header is not listed.
 */
export function renderOpenApi(
  endpoints: Record<string, Endpoint>,
  version: string,
  upstreams: readonly string[] = [],
): Json {
  const paths: Record<string, Json> = {};
  for (const [name, endpoint] of Object.entries(endpoints)) {
    paths[endpoint.path] ??= {};
    paths[endpoint.path]![endpoint.method.toLowerCase()] = operation(name, endpoint, upstreams);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "plumbline",
      version,
      description:
        "Aligns open-weight language models to documents, proves the gain, and serves the models with confidence scores.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: [...new Set(Object.values(endpoints).map((endpoint) => endpoint.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: { Failure: failureBody, MessagesFailure: messagesFailureBody },
      securitySchemes: {
        key: { type: "http", scheme: "bearer", description: "An API key; create one with `plumbline key create`." },
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "x-api-key",
          description: "The same key, in the header that some clients use.",
        },
      },
    },
  };
}

function operation(name: string, endpoint: Endpoint, upstreams: readonly string[]): Json {
  const parameters = [
    ...parametersOf("path", endpoint.params),
    ...parametersOf("query", endpoint.query),
    ...headersOf(endpoint, upstreams),
  ];
  const body = requestBody(endpoint);
  return {
    operationId: name.replaceAll(".", "_"),
    summary: endpoint.summary,
    ...(isOpen(endpoint) ? {} : scopeOf(endpoint)),
    tags: [endpoint.tag],
    ...(endpoint.aliases ? { "x-aliases": endpoint.aliases } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: body } : {}),
    responses: responsesOf(endpoint),
    security: securityOf(endpoint),
  };
}

const scopeOf = ({ anyScope, tag }: Endpoint): Json =>
  anyScope
    ? { description: "Any key is accepted." }
    : { description: `Requires the scope \`${scopeOfTag[tag]}\`.`, "x-scope": scopeOfTag[tag] };

const isOpen = ({ open }: Endpoint): boolean => open === true || open === "loopback";

function securityOf(endpoint: Endpoint): Json[] {
  if (isOpen(endpoint)) return [];
  if (endpoint.open) return [{ key: [] }, {}];
  return [{ key: [] }, ...(endpoint.tag === "inference" ? [{ apiKey: [] }] : [])];
}

function parametersOf(place: "path" | "query" | "header", schema: unknown): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as { properties?: Json; required?: string[] };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    schema: property,
    // A header has an example only where there is a meaningful one.
    ...(place === "header" && !(name in exampleValues) ? {} : { example: exampleOf(property, false, name) }),
  }));
}

function headersOf(endpoint: Endpoint, upstreams: readonly string[]): Json[] {
  return parametersOf("header", endpoint.headers).flatMap((header) => {
    if (header.name !== "x-provider") return [header];
    return upstreams.length === 0 || !endpoint.forwards ? [] : [{ ...header, schema: { enum: upstreams } }];
  });
}

function requestBody(endpoint: Endpoint): Json | null {
  if (endpoint.body) {
    const example = exampleOf(endpoint.body, false);
    return { required: true, content: { "application/json": { schema: endpoint.body, example } } };
  }
  if (!endpoint.upload) return null;
  const file = { type: "string", contentMediaType: "application/octet-stream" };
  const field = endpoint.upload.many ? { type: "array", minItems: 1, items: file } : file;
  const schema = { type: "object", required: ["file"], properties: { file: field }, additionalProperties: false };
  return { required: true, content: { "multipart/form-data": { schema } } };
}

/** Schema of one event of a stream. */
const eventSchema = {
  type: "object",
  required: ["data"],
  properties: {
    id: { type: "string" },
    event: { type: "string" },
    data: { type: "string", description: "JSON that matches `x-events`; OpenAI's streams end with [DONE]." },
  },
};

/** Returns the responses by status. Failures of one status share an entry, which names each code. */
function responsesOf(endpoint: Endpoint): Json {
  const codes = [...everywhere, ...(endpoint.method === "GET" ? [] : onWrites), ...endpoint.errors];
  const failure = endpoint.dialect === "anthropic" ? "MessagesFailure" : "Failure";
  if (!isOpen(endpoint)) codes.push("unauthorized", "forbidden", "too_many_requests");
  if (takesIdempotencyKey(endpoint)) codes.push("request_in_progress", "made_and_deleted", "idempotency_key_reused");
  if (endpoint.body || endpoint.upload) codes.push("too_large", "unsupported_media_type");
  const stream = { "text/event-stream": { schema: eventSchema } };
  const types = endpoint.download ?? [endpoint.text ?? "application/json"];
  const hasExample = !endpoint.download && !endpoint.text;
  const content = Object.fromEntries(
    types.map((type) => [
      type,
      { schema: endpoint.reply, ...(hasExample ? { example: exampleOf(endpoint.reply, true) } : {}) },
    ]),
  );
  const events = endpoint.events
    ? { description: "Success. In a stream, the `data` of each event matches `x-events`.", "x-events": endpoint.events }
    : { description: "Done." };
  const responses: Json = {
    [String(endpoint.status ?? 200)]: { ...events, content: { ...content, ...(endpoint.events ? stream : {}) } },
  };
  for (const status of [...new Set(codes.map((code) => failures[code].status))].sort()) {
    const these = [...new Set(codes)].filter((code) => failures[code].status === status);
    responses[String(status)] = {
      description: these.map((code) => `\`${code}\`: ${failures[code].message}. ${failures[code].hint}`).join("\n\n"),
      content: {
        "application/json": {
          schema: { $ref: `#/components/schemas/${failure}` },
          examples: failureExamples(these, endpoint.dialect ?? "openai"),
        },
      },
    };
  }
  return responses;
}

function failureExamples(codes: readonly FailureCode[], dialect: Dialect): Json {
  const requestId = String(exampleValues.request_id);
  const of = (code: FailureCode): Failure =>
    code === "validation" ? invalid(["body", "name"], "field required", "missing") : new Failure(code);
  return Object.fromEntries(codes.map((code) => [code, { value: failureIn[dialect].body(of(code), requestId) }]));
}
