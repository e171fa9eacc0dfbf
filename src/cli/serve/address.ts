/** Addresses to listen on, as flags write them. Only IP addresses: a name could come to mean another machine later. */
import { BlockList, isIP } from "node:net";

const PORT_MAX = 65_535;

/** An address of this machine, and a port; port 0 is any free one. */
export interface Address {
  /** IPv4 or IPv6, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** All of 127.0.0.0/8 is loopback on Linux, not only 127.0.0.1. */
const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** Reads an IP address; `localhost` is 127.0.0.1. Null for anything else. */
export function hostOf(text: string): string | null {
  const host = text === "localhost" ? "127.0.0.1" : text.replace(/^\[(.*)\]$/, "$1");
  return isIP(host) === 0 ? null : host;
}

/** Reads `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`; null for anything else. */
export function addressOf(text: string): Address | null {
  const [, host = "", digits = ""] = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(text) ?? [];
  const ip = hostOf(host);
  const port = Number(digits);
  return ip === null || port > PORT_MAX ? null : { host: ip, port };
}

/** An address as `addressOf` reads it and URLs have it: IPv6 in brackets. */
export function addressText({ host, port }: Address): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return loopback.check(host, isIP(host) === 6 ? "ipv6" : "ipv4");
}

/** The address at which this machine reaches a listener: one on all addresses listens on loopback, too. */
export function reachableUrl({ host, port }: Address): string {
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${addressText({ host: reached, port })}`;
}
