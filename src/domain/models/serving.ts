// The models that are loaded: deployed models, and models that a request or other work keeps loaded while it runs.
import { Failure } from "../../base/errors.ts";
import type { Generator, Lease, ModelRef } from "../../engine/generator.ts";
import { createDeployments, type DeploymentParts, type Deployments } from "./deploy.ts";
import { prepareModels } from "./store.ts";

export type ServingParts = Omit<DeploymentParts, "sql" | "pool"> & { generator: Generator };

export interface Serving extends Deployments {
  /** Keeps a model loaded until the lease is released. Throws not_deployed for an aligned model that is not deployed. */
  leaseForRequest(ref: ModelRef): Promise<Lease>;
  /** Like leaseForRequest, but for evaluations and other work of the appliance. An aligned model need not be deployed. */
  leaseForWork(ref: ModelRef): Promise<Lease>;
  /** Unloads the base that has been idle for longest; false if none is idle. */
  freeIdle(): Promise<boolean>;
}

export function createServing(parts: ServingParts): Serving {
  const sql = prepareModels(parts.store);
  const { pool } = parts.generator;
  const deployments = createDeployments({ ...parts, sql, pool });
  return {
    ...deployments,
    async leaseForRequest(ref) {
      if (ref.adapter) {
        // Redeployment after a start counts loads; a request must not bypass that count by loading the model itself.
        await deployments.settled(ref.adapter.id);
        if (sql.alignedById.get(ref.adapter.id)?.deployment_status !== "DEPLOYED") throw new Failure("not_deployed");
      }
      return pool.lease(ref, "request");
    },
    leaseForWork: (ref) => pool.lease(ref, "work"),
    freeIdle: pool.freeIdle,
  };
}
