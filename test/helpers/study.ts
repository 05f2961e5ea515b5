// What tests of a study share: documents with their blocks, and a base whose surprise is plain arithmetic.
import { wordsOf } from "../../src/base/text.ts";
import type { SnapshotDocument } from "../../src/contract/run-folder.ts";
import { blocksOfText } from "../../src/domain/documents/text-blocks.ts";
import { type Lexicon, lexiconOf } from "../../src/study/lexicon.ts";
import { type Passage, passagesOf } from "../../src/study/passages.ts";
import type { RowOptions } from "../../src/study/rows.ts";
import { worthAsking } from "../../src/study/spans.ts";
import { study } from "../../src/study/study.ts";
import { studyTargets, type Target } from "../../src/study/targets.ts";
import type { Speaker, Writer } from "../../src/study/writers/writer.ts";

/** As the appliance reads it: text with where its blocks stand. */
export function documentOf(
  text: string,
  media_type: SnapshotDocument["media_type"] = "text/markdown",
  name = "notes.md",
): SnapshotDocument {
  return { id: `document_${name}`, name, media_type, text, blocks: blocksOfText(text, media_type, name) };
}

/** Nats of a word for the plain base: where nothing stands before it, where it stood before, and where it did not. */
const nats = { alone: 2, repeated: 1, fresh: 8, unasked: 20 };

/** A base that knows nothing but what it has just read. A word with the blank before it is a token. It says nothing. */
export const plainBase: Speaker = {
  say: async (prompts) => prompts.map(() => ""),
  chat: async (messages) => messages.map(() => ""),
  score: async (rows) =>
    rows.map(({ prompt, text }) => {
      const read = new Set(wordsOf(prompt));
      const words = [...text.matchAll(/\s*\S+/g)];
      const cost = (word: string): number =>
        prompt === ""
          ? nats.alone
          : prompt === "Answer:"
            ? nats.unasked
            : wordsOf(word).every((one) => read.has(one))
              ? nats.repeated
              : nats.fresh;
      return {
        ends: words.map(({ 0: word, index }) => index + word.length),
        logprobs: words.map(([word]) => -cost(word)),
      };
    }),
};

export const studied = (documents: readonly SnapshotDocument[], options: RowOptions, writer: Writer | null = null) =>
  study(
    { documents, organisation: null },
    { base: plainBase, writer: async () => writer, progress: async () => {} },
    options,
  );

/** Every span surprises: targets of all that a passage may be asked. */
export function targetsIn(documents: readonly SnapshotDocument[]): {
  targets: Target[];
  passages: Passage[];
  lexicon: Lexicon;
} {
  const passages = passagesOf(documents);
  const lexicon = lexiconOf(passages);
  const targets = passages.flatMap((passage) =>
    studyTargets(
      passage,
      worthAsking(passage, [], () => 100, lexicon.tells),
    ),
  );
  return { targets, passages, lexicon };
}
