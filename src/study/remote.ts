// Lets a study run in its own thread while the models that it uses stay in the caller's thread. Calls and replies go through a port,
// one at a time. If a call fails, the study ends and the original error is thrown in the caller's thread.
import { once } from "node:events";
import type { MessagePort } from "node:worker_threads";
import type { Passage } from "./passages.ts";
import type { TeacherReply } from "./writers/teacher.ts";
import type { Speaker } from "./writers/writer.ts";

/** The services that stay outside the thread. */
export interface Answering {
  /** The base model without an adapter. */
  base: Speaker;
  /** The base with the shipped writer's adapter; null if the base has none. */
  writer: Speaker | null;
  /** A teacher's replies, by the passage's id. */
  teacherReplies(passages: readonly Passage[]): Promise<ReadonlyMap<string, TeacherReply>>;
  /** Called between pieces of work; throws to end the study. */
  progress(done: number, total: number, unit: string): Promise<void>;
}

type Call =
  | { of: "base" | "writer"; say: Parameters<Speaker["say"]> }
  | { of: "base" | "writer"; chat: Parameters<Speaker["chat"]> }
  | { of: "base" | "writer"; score: Parameters<Speaker["score"]> }
  | { teacherReplies: Parameters<Answering["teacherReplies"]> }
  | { progress: Parameters<Answering["progress"]> };

type Reply = { value: unknown } | { failed: true };

/** Answers calls from the port until the other end closes. `failed` returns the error that a call threw, or undefined. */
export function answer(port: MessagePort, parts: Answering): { failed(): unknown } {
  let failed: unknown;
  const ask = (call: Call): Promise<unknown> => {
    if ("teacherReplies" in call) return parts.teacherReplies(...call.teacherReplies);
    if ("progress" in call) return parts.progress(...call.progress);
    const speaker = parts[call.of]!;
    if ("say" in call) return speaker.say(...call.say);
    return "chat" in call ? speaker.chat(...call.chat) : speaker.score(...call.score);
  };
  port.on("message", (call: Call) => {
    ask(call).then(
      (value) => port.postMessage({ value } satisfies Reply),
      (error: unknown) => {
        failed = error;
        port.postMessage({ failed: true } satisfies Reply);
      },
    );
  });
  return { failed: () => failed };
}

/** Returns the same services for the study's thread, as proxies that call through the port. */
export function asking(port: MessagePort): Answering {
  const ask = async (call: Call): Promise<unknown> => {
    port.postMessage(call);
    const [reply] = (await once(port, "message")) as [Reply];
    if ("failed" in reply) throw new Error("The model or upstream that was asked gave no answer");
    return reply.value;
  };
  const speaker = (of: "base" | "writer"): Speaker => ({
    say: async (...say) => (await ask({ of, say })) as string[],
    chat: async (...chat) => (await ask({ of, chat })) as string[],
    score: async (...score) => (await ask({ of, score })) as Awaited<ReturnType<Speaker["score"]>>,
  });
  return {
    base: speaker("base"),
    writer: speaker("writer"),
    teacherReplies: async (...teacherReplies) => (await ask({ teacherReplies })) as ReadonlyMap<string, TeacherReply>,
    progress: async (...progress) => void (await ask({ progress })),
  };
}
