// The whole API, put together from its groups of endpoints.
import { access } from "./access.ts";
import { agents } from "./agents.ts";
import { alignments } from "./alignments.ts";
import { benchmarks } from "./benchmarks.ts";
import { captures } from "./captures.ts";
import { chat } from "./chat.ts";
import { completions } from "./completions.ts";
import { confidences } from "./confidence.ts";
import { documents } from "./documents.ts";
import type { Handlers } from "./endpoint.ts";
import { evaluations } from "./evaluations.ts";
import { messages } from "./messages.ts";
import { models } from "./models.ts";
import { promotions } from "./promotions.ts";
import { proposals } from "./proposals.ts";
import { responses } from "./responses.ts";
import { system } from "./system.ts";
import { tokens } from "./tokens.ts";
import { vectors } from "./vectors.ts";

export const contract = {
  ...system,
  ...documents,
  ...benchmarks,
  ...alignments,
  ...models,
  ...confidences,
  ...promotions,
  ...evaluations,
  ...completions,
  ...chat,
  ...messages,
  ...responses,
  ...vectors,
  ...tokens,
  ...agents,
  ...access,
  ...captures,
  ...proposals,
} as const;

export type Contract = typeof contract;
export type AllHandlers = Handlers<Contract>;

/** Version of the interface description. */
export const interfaceVersion = "25.4.20";
