// plumbline undeploy: takes an aligned model out of service, through the API.
import type { Command } from "commander";
import { asks, watched } from "./asks.ts";
import { followDeployment } from "./follow.ts";

export function register(program: Command): void {
  const undeploy = program
    .command("undeploy")
    .description("take an aligned model out of service; running answers finish first")
    .argument("<model>", "the model's id, model_… or alignment-…")
    .option("--detach", "do not wait until it ends");
  asks<{ detach?: boolean }>(undeploy, async (client, { detach }, id) => {
    const begun = await client.api["models.undeploy"]({ params: { model_id: id } });
    if (detach) return { json: begun, text: `${begun.model_id} is ${begun.status}` };
    const task = await watched(`plumbline undeploy ${id}`, (progress, signal) =>
      followDeployment(client, id, progress, signal),
    );
    return { json: task, text: `${task.model_id} is undeployed` };
  });
}
