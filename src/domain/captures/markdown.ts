// Renders questions with their answers as a document to learn from.

/** Each question is a heading. The lines of a question are joined, because a heading is one line. */
export const asMarkdown = (name: string, pairs: readonly { instruction: string; response: string }[]): string =>
  [
    `# ${name}`,
    ...pairs.map(
      ({ instruction, response }) => `## ${instruction.replaceAll(/\s+/g, " ").trim()}\n\n${response.trim()}`,
    ),
  ].join("\n\n");
