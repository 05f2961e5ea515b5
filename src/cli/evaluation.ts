// plumbline evaluation: stops any evaluation of the running appliance, whoever owns it. Everything else about
// evaluations is done through the API.
import type { Command } from "commander";
import { admin } from "./connection.ts";
import { answers } from "./output.ts";

export function register(program: Command): void {
  const evaluation = program.command("evaluation").description("evaluations: stop");

  const stop = evaluation
    .command("stop")
    .description("stop an evaluation that is queued or running; its answers are not used")
    .argument("<id>", "the evaluation's id, evaluation_…");
  answers(stop, async (_, id) => {
    await admin("evaluation.stop", { id });
    return { json: { id, stopped: true }, text: `${id} is stopped` };
  });
}
