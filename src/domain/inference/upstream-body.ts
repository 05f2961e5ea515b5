// The body of a request to an upstream. Strict servers refuse every field that they do not know, even at a value that has no
// effect, so only fields that change something are sent. If a model still refuses a field, the request is sent again with the field
// renamed or left out.

export type UpstreamBody = Readonly<Record<string, unknown>>;

/** Values that change nothing: the protocol's own defaults, and those of our extensions. The contract fills them in. */
const withoutEffect: UpstreamBody = {
  n: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  ignore_eos: false,
  logprobs: false,
  echo: false,
  stream: false,
  parallel_tool_calls: true,
  encoding_format: "float",
  truncate: false,
};

const ofTools: ReadonlySet<string> = new Set(["tools", "tool_choice", "parallel_tool_calls"]);

/**
 * The fields of the body that change something, for a server of OpenAI's protocol. max_completion_tokens wins over max_tokens,
 * because OpenAI refuses both together. Usage is always requested of a stream, because the tokens are counted here.
 */
export function upstreamFields({ prompt_truncate_len: _, stream_options, ...body }: UpstreamBody): UpstreamBody {
  const hasTools = Array.isArray(body.tools) && body.tools.length > 0;
  const isSent = ([name, value]: [string, unknown]): boolean =>
    value !== null && value !== undefined && value !== withoutEffect[name] && (hasTools || !ofTools.has(name));
  const fields = Object.fromEntries(Object.entries(body).filter(isSent));
  if ("max_completion_tokens" in fields) delete fields.max_tokens;
  return fields.stream === true
    ? { ...fields, stream_options: { ...(stream_options as object | null), include_usage: true } }
    : fields;
}

/** Another way to say the same, for models that refuse the usual one. */
export interface Rewording {
  /** Whether the refusal of a body asks for it. Never again once the body is reworded. */
  isAskedBy(refusal: string, body: UpstreamBody): boolean;
  /** Returns the body without what such models refuse. */
  reword(body: UpstreamBody): UpstreamBody;
}

const isUnsupported = /unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|extra_forbidden|not permitted/i;

const rewordings: readonly Rewording[] = [
  {
    // OpenAI's models that think know the limit only by its newer name.
    isAskedBy: (refusal, body) =>
      "max_tokens" in body && /max_(completion_)?tokens/.test(refusal) && isUnsupported.test(refusal),
    reword: ({ max_tokens, ...body }) =>
      max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens },
  },
  {
    // The same models accept no temperature, or only 1. Only the default of 1 is dropped: a client that asks for another temperature
    // must learn that it is refused.
    isAskedBy: (refusal, body) => body.temperature === 1 && refusal.includes("temperature"),
    reword: ({ temperature, ...body }) => (temperature === 1 ? body : { ...body, temperature }),
  },
  {
    // Some servers, such as Mistral's, report the usage of every stream and do not know the field that requests it.
    isAskedBy: (refusal, body) =>
      "stream_options" in body && refusal.includes("stream_options") && isUnsupported.test(refusal),
    reword: ({ stream_options: _, ...body }) => body,
  },
];

/** The rewording that the refusal of a body asks for. */
export const rewordingFor = (refusal: string, body: UpstreamBody): Rewording | undefined =>
  rewordings.find((one) => one.isAskedBy(refusal, body));
