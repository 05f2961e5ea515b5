// The header X-Provider, which names an upstream.
import { invalid } from "../../base/errors.ts";

/** Refuses X-Provider on endpoints that are never forwarded. */
export function refuseProvider(headers: Record<string, unknown>): void {
  if (headers["x-provider"] !== undefined)
    throw invalid(["header", "X-Provider"], "this request is always answered on this machine; leave the header out");
}
