/** New names of renamed fields and query parameters, by their old names. A request that uses an old name is refused. */
export const renamedFields: Readonly<Record<string, string>> = {
  line: "channel",
};
