// The string formats that are enforced, as patterns. Dates and times (RFC 3339), UUIDs (RFC 4122) and IPv4 addresses
// (RFC 2673) are accepted only in their usual spelling. Days of months and leap years are checked.

const date =
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))" +
  "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
const time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";

export const formats: ReadonlyMap<string, string> = new Map(
  Object.entries({
    date: `^${date}$`,
    time: `^${time}$`,
    "date-time": `^${date}T${time}$`,
    uuid: "^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
    ipv4: `^${byte}(?:\\.${byte}){3}$`,
    // Plain addresses only: no quotes, no comments.
    email: `^[A-Za-z0-9_+-]{1,60}(?:\\.[A-Za-z0-9_+-]{1,60}){0,3}@(?:${label}\\.){1,4}[A-Za-z]{2,20}$`,
  }),
);
