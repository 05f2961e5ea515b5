// A file's name is a label for people. It never becomes a path, and must not look like another name when it is shown.
import { labelOf } from "../../base/visible.ts";

export const label = (fileName: string): string => labelOf(fileName.split(/[\\/]/).at(-1) ?? "");
