/** Fields and query parameters that have another name now: the old name and its successor. A request with an old one is refused. */
export const renamedFields: Readonly<Record<string, string>> = {
  line: "channel",
};
