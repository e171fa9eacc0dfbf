/** The address of the server's door for this client, and the token that opens it. */
import { invalid } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { platform } from "../platform.ts";

/** Path of the door, below the address of a server. */
export const DOOR_PATH = "/throttr/edge";

/**
 * A token, or a function that returns one. The function is called before each request and each connection, so tokens may
 * be short-lived.
 *
 * @example
 * const token = async () => (await fetch("/ticket")).text();
 * const throttr = new ThrottrClient(webSocket("https://throttr.example.com", { token }));
 */
export type Token = string | (() => string | Promise<string>);

/** The protocol of an address: with or without TLS. */
const PROTOCOL = /^(?:http|ws)(s?):$/;

/**
 * The address of the door.
 *
 * @param url of the server, `http`, `https`, `ws` or `wss`; with the path that all its routes are below, where it has one.
 *   The address of the door itself is accepted, too.
 * @throws ThrottrError `option_invalid`
 */
export function doorOf(url: string, scheme: "http" | "ws"): string {
  const door = parse(url);
  const tls = PROTOCOL.exec(door?.protocol ?? "")?.[1];
  if (door === null || tls === undefined) {
    const expected = "an address that begins with http, https, ws or wss";
    throw invalid("url", expected, url, "option_invalid");
  }
  // `fetch` refuses such an address at each call, and its error shows the password.
  if (scheme === "http" && door.username + door.password !== "") {
    const detail = "url: expected an address without user and password; a token is an option";
    throw new ThrottrError("option_invalid", detail);
  }
  door.protocol = `${scheme}${tls}:`;
  door.pathname = prefixOf(door.pathname) + DOOR_PATH;
  door.hash = "";
  return door.href;
}

/**
 * The address of a server over HTTP, without a slash at its end: the path of a route follows it.
 *
 * @param url as `doorOf` takes it
 * @throws ThrottrError `option_invalid`
 */
export function serverOf(url: string): string {
  const { origin, pathname } = new platform.URL(doorOf(url, "http"));
  return origin + prefixOf(pathname);
}

/** The path that all routes of a server are below; empty where it has none. */
function prefixOf(pathname: string): string {
  const path = withoutSlashes(pathname);
  return path.endsWith(DOOR_PATH) ? withoutSlashes(path.slice(0, -DOOR_PATH.length)) : path;
}

const withoutSlashes = (path: string): string => path.replace(/\/+$/, "");

function parse(url: string): InstanceType<typeof platform.URL> | null {
  try {
    return new platform.URL(url, platform.location?.href);
  } catch {
    return null;
  }
}

/** @throws ThrottrError `option_invalid` for anything but text, a function, and none */
export function checkToken(token: Token | null | undefined): void {
  if (token == null || typeof token === "string" || typeof token === "function") return;
  throw invalid("token", "text, or a function that returns it", token, "option_invalid");
}

/**
 * Returns a token that is valid now; null where none is needed, or the function returns none. Without white space around it,
 * such as the end of line of a file: a header stands it, and a WebSocket does not.
 *
 * @throws ThrottrError `connection_failed` when the function fails; `option_invalid`, as `checkToken` and `checkedToken`
 */
export async function tokenOf(token: Token | undefined): Promise<string | null> {
  const given = typeof token === "function" ? await calledFor(token) : token;
  // A function may return anything, such as a response in place of its text.
  checkToken(given);
  return given == null ? null : checkedToken(given.trim());
}

/**
 * Refuses a token that no header can carry, such as one with a line break in it. The runtime would refuse it, too, with an error that
 * quotes the token, and that error ends in logs.
 *
 * @throws ThrottrError `option_invalid`
 */
export function checkedToken(token: string): string {
  if (/^[ -~]*$/.test(token)) return token;
  const detail =
    "token: expected ASCII characters without line breaks and other control characters";
  throw new ThrottrError("option_invalid", detail);
}

/** What the function returns. @throws ThrottrError `connection_failed` when the function fails */
async function calledFor(token: Exclude<Token, string>): Promise<string> {
  try {
    return await token();
  } catch (cause) {
    throw new ThrottrError(
      "connection_failed",
      `the function that returns the token failed: ${String(cause)}`,
      { cause },
    );
  }
}
