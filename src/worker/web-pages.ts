/**
 * Which web pages may call: a browser sends any page's requests, and opens any page's WebSockets.
 *
 * `Origin` says whose page it is. That alone does not do on a machine of one's own: the owner of a name may point it to
 * 127.0.0.1 once the page has been loaded (DNS rebinding), and then page and server have the same origin. So a server
 * on loopback that asks for no token looks at `Host`, too: whoever starts it there sets `HOSTS`.
 */
import { logWarning } from "../base/log.ts";
import type { Settings } from "../base/settings.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** Origins and hosts that an isolate remembers to have logged. Pages of strangers must not fill the log. */
const LOGGED_MAX = 100;
/** Longest name that is shown. */
const SHOWN_MAX = 200;

const logged = new Set<string>();

/** Pages of this origin may call, wherever the server is. */
export function isListedOrigin(origin: string, { CORS_ORIGINS }: Settings): boolean {
  const origins = listOf(CORS_ORIGINS);
  return origins.includes("*") || origins.includes(origin);
}

/** @throws ThrottrError `origin_not_allowed` */
export function assertOrigin(origin: string | undefined, url: string, settings: Settings): void {
  if (origin === undefined || isListedOrigin(origin, settings)) return;
  if (origin === new URL(url).origin) return;
  if (isNew(`origin ${origin}`)) {
    logWarning("origin_refused", { origin: shown(origin), variable: "CORS_ORIGINS" });
  }
  throw new ThrottrError("origin_not_allowed", `CORS_ORIGINS does not list ${shown(origin)}`);
}

/** @throws ThrottrError `host_not_allowed` */
export function assertHost(url: string, settings: Settings): void {
  if (settings.HOSTS === "") return;
  const { host, hostname } = new URL(url);
  if (isLoopbackName(hostname) || isListedHost(host, hostname, settings)) return;
  if (isNew(`host ${host}`)) logWarning("host_refused", { host: shown(host), variable: "HOSTS" });
  throw new ThrottrError(
    "host_not_allowed",
    `this server does not answer to the name ${shown(host)}, which is neither localhost nor listed by HOSTS or CORS_ORIGINS`,
  );
}

/** A name that no one can point elsewhere. The URL has it in lower case, and an IPv4 address with four numbers. */
function isLoopbackName(hostname: string): boolean {
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname)
  );
}

function isListedHost(host: string, hostname: string, { HOSTS, CORS_ORIGINS }: Settings): boolean {
  const hosts = listOf(HOSTS.toLowerCase());
  if (hosts.includes("*") || hosts.includes(host) || hosts.includes(hostname)) return true;
  // Pages of these origins may call anyway; those of all of them, where it is "*".
  const origins = listOf(CORS_ORIGINS.toLowerCase());
  return origins.includes("*") || origins.some((origin) => origin.split("://")[1] === host);
}

function listOf(text: string): string[] {
  return text.split(",").map((listed) => listed.trim());
}

/** True once for each text, and never when many have been seen. */
function isNew(text: string): boolean {
  if (logged.size >= LOGGED_MAX || logged.has(text)) return false;
  logged.add(text);
  return true;
}

function shown(name: string): string {
  return name.length > SHOWN_MAX ? `${name.slice(0, SHOWN_MAX)}…` : name;
}
