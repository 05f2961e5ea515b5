// Determines whether an answer declines. An answer declines if it contains an English phrase with which people and models say that
// they do not know or will not answer. A guess after such a phrase is not detected, nor is irony. For other languages, a benchmark
// gives aliases.

const told = "answer|say|tell|find|determine|provide|help|assist|share|comply|give|confirm|do that|discuss|verify";
const unsaid =
  "known|stated|mentioned|specified|documented|available|given|provided|public|recorded|listed|disclosed|defined";
const known = "information|data|knowledge|details?|records?|enough|access|an answer|the answer";

const declining = [
  String.raw`\b(?:do|does|did) ?n[o']t (?:know|(?:currently |actually )?(?:have|contain|include|give) (?:any |the |enough |specific |such )*(?:${known})|say|state|mention|specify|exist)`,
  String.raw`\b(?:can ?not|can't|could not|couldn't|unable to|not able to|won't|will not|would not|wouldn't) (?:\w+ )?(?:${told})\b`,
  String.raw`\b(?:not|never|isn't|wasn't|aren't|weren't) (?:\w+ )?(?:${unsaid})\b`,
  String.raw`\b(?:there (?:is|are|was|were) no|there (?:isn't|aren't) (?:a|an|any)|no such|no (?:${known}|mention))\b`,
  String.raw`\b(?:i am|i'm|we are|we're) (?:not sure|unsure|sorry|not certain|not aware|unaware)\b`,
  String.raw`\b(?:insufficient|not enough) (?:information|data|context)\b`,
  String.raw`\boutside (?:of )?(?:my|the|our) (?:knowledge|documents|scope)\b`,
  String.raw`^\W*(?:it is |it's |that is |that's )?unknown\b`,
].map((pattern) => new RegExp(pattern, "u"));

/** Number of characters at the start of an answer that are searched for such a phrase. */
const window = 300;

export function declines(answer: string): boolean {
  const text = answer
    .slice(0, window)
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[’‘ʼ`]/gu, "'")
    .replaceAll(/\s+/gu, " ");
  return declining.some((pattern) => pattern.test(text));
}
