/**
 * Which web pages may call. A browser sends the requests of any page, and opens any page's WebSockets.
 *
 * `Origin` names the page's site. That is not enough on a developer's machine: the owner of a domain may point it to
 * 127.0.0.1 after the page was loaded (DNS rebinding), and then page and server have the same origin. So a server on
 * loopback without tokens also checks `Host`: `npm start` and an open `serve` set `HOSTS`.
 */
import { variableName } from "../base/deployment.ts";
import { logWarning } from "../base/log.ts";
import type { Settings } from "../base/settings.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** Most origins and hosts that an isolate logs: pages of strangers must not fill the log. */
const LOGGED_MAX = 100;
/** Longer names are cut in messages and logs. */
const SHOWN_MAX = 200;

/** Origins and hosts that were logged in this isolate. Each new isolate logs them again, as none of them lasts. */
const logged = new Set<string>();

/** Whether `CORS_ORIGINS` lists an origin. */
export function isListedOrigin(origin: string, { CORS_ORIGINS }: Settings): boolean {
  const origins = originsOf(CORS_ORIGINS);
  return origins.includes("*") || origins.includes(origin);
}

/**
 * Whether a request may use the session of its user: one of a program, of a page of the same origin, or of an origin
 * that is listed by its name. Browsers send cookies along with any page's requests, so `*` allows tokens only.
 */
export function mayUseSession({ headers, url }: Request, { CORS_ORIGINS }: Settings): boolean {
  const origin = headers.get("origin");
  if (origin !== null) {
    return origin === new URL(url).origin || originsOf(CORS_ORIGINS).includes(origin);
  }
  // Images, scripts and links of other pages have no `Origin`, but a browser says of them that they are not of this one.
  const site = headers.get("sec-fetch-site");
  return site === null || site === "same-origin" || site === "none";
}

/**
 * Refuses pages of other sites. Programs send no `Origin`, and are not what this is about: a browser alone lets a
 * stranger's page use its owner's network.
 *
 * @throws ThrottrError `origin_not_allowed`
 */
export function assertOrigin(origin: string | undefined, url: string, settings: Settings): void {
  if (origin === undefined || isListedOrigin(origin, settings)) return;
  if (origin === new URL(url).origin) return;
  if (isNew(`origin ${origin}`)) {
    logWarning("origin_refused", { origin: shown(origin), variable: variableName("CORS_ORIGINS") });
  }
  throw new ThrottrError(
    "origin_not_allowed",
    `pages of ${shown(origin)} may not call this server: add the origin to ${variableName("CORS_ORIGINS")} to allow it`,
  );
}

/**
 * Refuses a request whose `Host` is not the name of a host, so that its URL is invalid. Cloudflare lets none through; the
 * runtime alone does.
 *
 * @throws ThrottrError `host_not_allowed`
 */
export function assertUrl(url: string): void {
  if (URL.canParse(url)) return;
  throw new ThrottrError("host_not_allowed", "Host: expected the name of a host");
}

/**
 * Refuses a name that is not one of the server's, if `HOSTS` lists any. A deployed Worker needs no such list:
 * Cloudflare routes by name.
 *
 * @throws ThrottrError `host_not_allowed`
 */
export function assertHost(url: string, settings: Settings): void {
  if (listOf(settings.HOSTS).length === 0) return;
  const { host, hostname } = new URL(url);
  if (isLoopbackName(hostname) || isListedHost(host, hostname, settings)) return;
  if (isNew(`host ${host}`))
    logWarning("host_refused", { host: shown(host), variable: variableName("HOSTS") });
  throw new ThrottrError(
    "host_not_allowed",
    `this server does not answer to the name ${shown(host)}: add it to ${variableName("HOSTS")}, or call localhost`,
  );
}

/** Whether a name always means this machine. `URL` has put it in lower case, and IPv4 addresses into four numbers. */
function isLoopbackName(hostname: string): boolean {
  return (
    hostname === "localhost" ||
    hostname.endsWith(".localhost") ||
    hostname === "[::1]" ||
    /^127\.\d+\.\d+\.\d+$/.test(hostname)
  );
}

/** Whether a variable lists the host, with or without its port. */
function isListedHost(host: string, hostname: string, { HOSTS, CORS_ORIGINS }: Settings): boolean {
  const hosts = listOf(HOSTS.toLowerCase());
  if (hosts.includes("*") || hosts.includes(host) || hosts.includes(hostname)) return true;
  // Pages of a listed origin may call anyway, so its host may be named, too.
  const origins = originsOf(CORS_ORIGINS);
  return origins.includes("*") || origins.some((origin) => origin.split("://")[1] === host);
}

/** The parts of a list with commas. */
function listOf(text: string): string[] {
  return text
    .split(",")
    .map((listed) => listed.trim())
    .filter((listed) => listed !== "");
}

/** Origins as browsers send them: in lower case, and without the slash behind them that people copy along. */
function originsOf(list: string): string[] {
  return listOf(list.toLowerCase()).map((origin) => origin.replace(/\/$/, ""));
}

/**
 * True the first time a text is seen, and never after a hundred texts. What is kept is cut, and a string of its own: a header may
 * have some hundred KB, and a part of a string keeps all of it in memory.
 */
function isNew(text: string): boolean {
  const kept = text.slice(0, SHOWN_MAX).split("").join("");
  if (logged.size >= LOGGED_MAX || logged.has(kept)) return false;
  logged.add(kept);
  return true;
}

/** A name for messages and logs, in at most 200 characters. */
function shown(name: string): string {
  return name.length > SHOWN_MAX ? `${name.slice(0, SHOWN_MAX)}…` : name;
}
