// Converts the bytes of tokens to text that may be shown: whole code points only, and nothing that may still be the beginning
// of a stop string.

export interface TextStream {
  /** Adds bytes, and returns the text that can be shown now. */
  push(bytes: Uint8Array): string;
  /** Returns the text that is still held back at the end of an answer. An unfinished code point becomes U+FFFD. */
  finish(): string;
  /** Whether a stop string was found. The stop string and what follows it are never returned. */
  readonly stopped: boolean;
  /** The stop string that was found, or null. */
  readonly stopString: string | null;
}

export function createTextStream(stopStrings: readonly string[]): TextStream {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let held = "";
  let stopString: string | null = null;
  const stops = stopStrings.filter((stop) => stop !== "");

  const release = (): string => {
    const found = stops.filter((stop) => held.includes(stop)).sort((a, b) => held.indexOf(a) - held.indexOf(b));
    if (found.length > 0) {
      stopString = found[0]!;
      const text = held.slice(0, held.indexOf(stopString));
      held = "";
      return text;
    }
    const keep = Math.max(0, ...stops.map((stop) => overlap(held, stop)));
    const text = held.slice(0, held.length - keep);
    held = held.slice(held.length - keep);
    return text;
  };

  return {
    push: (bytes) => {
      if (stopString !== null) return "";
      held += decoder.decode(bytes, { stream: true });
      return release();
    },
    finish: () => {
      if (stopString !== null) return "";
      const text = held + decoder.decode();
      held = "";
      return text;
    },
    get stopped() {
      return stopString !== null;
    },
    get stopString() {
      return stopString;
    },
  };
}

/** Length of the longest suffix of `text` that is a proper prefix of `stop`. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--)
    if (stop.startsWith(text.slice(text.length - length))) return length;
  return 0;
}
