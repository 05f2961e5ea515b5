// The command line as a process.
import { runCommandLine } from "./verbs.ts";

// The reader may close the pipe early, as `head` does; the rest of the output is dropped without an error.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });

await runCommandLine(process.argv.slice(2));
