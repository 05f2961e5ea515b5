// plumbline deploy: loads an aligned model so that it answers requests, through the API.
import type { Command } from "commander";
import { asks, watched } from "./asks.ts";
import { followDeployment } from "./follow.ts";

export function register(program: Command): void {
  const deploy = program
    .command("deploy")
    .description(
      "load an aligned model, so that it answers under its id or name; `plumbline model aligned` lists the models",
    )
    .argument("<model>", "the model's id, model_… or alignment-…")
    .option("--detach", "do not wait until it ends");
  asks<{ detach?: boolean }>(deploy, async (client, { detach }, id) => {
    const begun = await client.api["models.deploy"]({ params: { model_id: id } });
    if (detach) return { json: begun, text: `${begun.model_id} is ${begun.status}` };
    const task = await watched(`plumbline deploy ${id}`, (progress, signal) =>
      followDeployment(client, id, progress, signal),
    );
    return { json: task, text: `${task.model_id} is deployed: plumbline chat ${task.model_id}` };
  });
}
