// What rows and the leakage check compare texts by.
export {
  capitalised,
  containsWords,
  hashOf,
  isEnglish,
  jaccard,
  ngramsOf,
  normalised,
  seeded,
  shuffled,
  wordsOf,
} from "../../../base/text.ts";
