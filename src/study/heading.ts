// A file apart from passages.ts, because importing passages.ts loads the tables for detecting sixty languages. The appliance starts
// without these tables.
import type { Passage } from "./passages.ts";

/** Title and headings of a passage, outermost first. */
export const headingOf = ({ title, path }: Pick<Passage, "title" | "path">): string => [title, ...path].join(" > ");
