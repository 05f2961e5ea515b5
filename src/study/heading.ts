// Apart from passages.ts, which loads the tables of sixty languages: the appliance starts without them.
import type { Passage } from "./passages.ts";

/** Title and headings of a passage, outermost first. */
export const headingOf = ({ title, path }: Pick<Passage, "title" | "path">): string => [title, ...path].join(" > ");
