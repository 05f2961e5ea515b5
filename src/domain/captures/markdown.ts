// Renders questions with their answers as a document to learn from.

/** A heading is one line, so a question of several lines is joined. */
export const asMarkdown = (name: string, pairs: readonly { instruction: string; response: string }[]): string =>
  [
    `# ${name}`,
    ...pairs.map(
      ({ instruction, response }) => `## ${instruction.replaceAll(/\s+/g, " ").trim()}\n\n${response.trim()}`,
    ),
  ].join("\n\n");
