// The address to listen on, and the URL that clients use for it. While no API key exists, the server listens on loopback only, because
// no other machine can have a key. Once the first key exists, it moves to the configured host.
import type { AddressInfo } from "node:net";
import type { Config } from "../base/config.ts";
import type { Log } from "../base/log.ts";
import { isLoopback } from "./request.ts";

/** Where a server listens. */
export interface Address {
  /** URL of the server on this machine; empty before `listen`. */
  url(): string;
  /** URL that clients are given: the configured one, or else `url`. */
  publicUrl(): string;
  /** Starts to listen, on loopback while there is no key. Resolves to the URL. */
  listen(server: Listening, anyKey: boolean): Promise<string>;
  /** Moves from loopback to the configured host. Has no effect before `listen`, or if the server already listens there. */
  open(): Promise<void>;
}

/** A server that can move to another host. If a move fails, it listens on the old address again. */
export interface Listening {
  listen(port: number, host: string): Promise<AddressInfo>;
  move(host: string): Promise<AddressInfo>;
}

export function createAddress({
  config,
  log,
}: {
  config: Pick<Config, "host" | "port" | "publicUrl">;
  log: Log;
}): Address {
  let listening: { server: Listening; host: string; url: string } | null = null;

  function hostFor(anyKey: boolean): string {
    if (anyKey || isLoopback(config.host)) return config.host;
    log("warn", "loopback_only", {
      wanted: config.host,
      hint: "No API key exists, so only requests from this machine are answered. Creating the first key opens the address: `plumbline key create --user NAME`.",
    });
    return "127.0.0.1";
  }

  const url = (): string => listening?.url ?? "";
  return {
    url,
    publicUrl: () => config.publicUrl || url(),
    async listen(server, anyKey) {
      const host = hostFor(anyKey);
      const url = urlOf(await server.listen(config.port, host));
      listening = { server, host, url };
      return url;
    },
    async open() {
      if (listening === null || listening.host === config.host) return;
      const { server, host } = listening;
      try {
        const url = urlOf(await server.move(config.host));
        listening = { server, host: config.host, url };
        log("info", "listening", { url, host: config.host });
      } catch (error) {
        const hint = `Still listening on ${host}. Free ${config.host}:${config.port}, or set PLUMBLINE_HOST; then restart.`;
        log("error", "address_failed", { wanted: config.host, error, hint });
      }
    },
  };
}

const urlOf = ({ address, family, port }: AddressInfo): string => {
  const host = address === "0.0.0.0" || address === "::" ? "127.0.0.1" : address;
  return `http://${family === "IPv6" && host === address ? `[${host}]` : host}:${port}`;
};

/** Returns the network under which an address is counted. For IPv6 that is its /64, because one customer has a whole /64. */
export function networkOf(address: string): string {
  if (!address.includes(":") || address.startsWith("::ffff:")) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(":").filter((group) => group !== "").length;
  return [...groups, ...new Array<string>(missing).fill("0"), ...(tail ?? "").split(":")].slice(0, 4).join(":");
}
