// Sends one message to a chat model and returns its answer, as for any client: a base, a deployed model, or an
// upstream's.
import { Failure } from "../../base/errors.ts";
import { randomWord } from "../../base/ids.ts";
import type { chat } from "../../contract/chat.ts";
import { chatBody } from "../../contract/chat-body.ts";
import { EventStream, type Handler } from "../../contract/endpoint.ts";
import { compile } from "../../contract/validate.ts";

type Chat = (typeof chat)["inference.chat"];

const check = compile(chatBody);
/** Token limit of an answer: enough for questions on everything that a passage says. */
const longest = 1500;

/** A chat model's answer to one message, at temperature 0. Throws what the chat endpoint throws. */
export type Say = (
  ownerId: string,
  by: { model: string; provider: string | null; key_id: string },
  content: string,
  signal: AbortSignal,
) => Promise<string>;

export const createSaying =
  (chat: Handler<Chat>): Say =>
  async (ownerId, { model, provider, key_id }, content, signal) => {
    const asked = check({ model, messages: [{ role: "user", content }], temperature: 0, max_tokens: longest });
    if (!asked.ok) throw new Failure("validation", undefined, { details: asked.details });
    const answer = await chat(
      {
        params: {},
        query: {},
        raw: {},
        files: [],
        lastEventId: null,
        headers: provider === null ? {} : { "x-provider": provider },
        requestId: `req_${randomWord()}`,
        signal,
        setHeader: () => {},
        body: asked.value,
      },
      { userId: ownerId, userName: "", keyId: key_id },
    );
    if (answer instanceof EventStream) throw new Error("the answer is a stream");
    const said = answer.choices[0]?.message.content;
    return typeof said === "string" ? said : "";
  };
