// The command line as a process.
import { runCommandLine } from "./verbs.ts";

// Whoever reads us through a pipe may have enough of it, as «head» does: what is left to say is not said, and no failure.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });

await runCommandLine(process.argv.slice(2));
