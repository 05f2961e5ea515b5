// The address to listen on, and the URL that clients use for it.
import type { AddressInfo } from "node:net";
import type { Config } from "../base/config.ts";
import type { Log } from "../base/log.ts";
import { isLoopback } from "./request.ts";

/** The configured host; loopback while no API key exists, since others could only wait for the first key to leak. */
export function hostFor(config: Config, anyKey: boolean, log: Log): string {
  if (anyKey || isLoopback(config.host)) return config.host;
  log("warn", "loopback_only", {
    wanted: config.host,
    hint: "No API key exists, so only this machine is answered. The first one opens the address: `plumbline key create --user NAME`.",
  });
  return "127.0.0.1";
}

export const urlOf = ({ address, family, port }: AddressInfo): string => {
  const host = address === "0.0.0.0" || address === "::" ? "127.0.0.1" : address;
  return `http://${family === "IPv6" && host === address ? `[${host}]` : host}:${port}`;
};

/** The network by which an address is counted: an IPv6 customer has a whole /64 of addresses. */
export function networkOf(address: string): string {
  if (!address.includes(":") || address.startsWith("::ffff:")) return address;
  const [head = "", tail] = address.split("::");
  const groups = head === "" ? [] : head.split(":");
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(":").filter((group) => group !== "").length;
  return [...groups, ...new Array<string>(missing).fill("0"), ...(tail ?? "").split(":")].slice(0, 4).join(":");
}
