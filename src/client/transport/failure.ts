/** Errors out of what servers, and the platforms in front of them, answer when something fails. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { platform } from "../platform.ts";

/** How much of another server's answer a message shows. */
const SHOWN_MAX = 100;

/**
 * Reads an error out of a text of this server; null for any other text. Its codes have two words or more, and no platform's
 * messages begin like that.
 */
export function errorOfText(text: string, cause?: unknown): ThrottrError | null {
  const { code, detail } = ThrottrError.from(text);
  return code.includes("_") ? new ThrottrError(code, detail, { cause }) : null;
}

/**
 * Reads an error out of the body of an HTTP answer; null when the answer is not one of this server.
 *
 * An application around the server refuses with problems of its own, and those of `throttr-edge/fetch` have codes, too.
 * The server's alone have a type that ends with the code.
 */
export function errorOfAnswer(text: string): ThrottrError | null {
  const problem = parse(text);
  if (typeof problem?.code !== "string" || typeof problem.type !== "string") return null;
  if (!problem.type.endsWith(`#${problem.code}`)) return null;
  return errorOfText(`${problem.code}: ${String(problem.detail)}`);
}

interface Problem {
  readonly type?: unknown;
  readonly code?: unknown;
  readonly detail?: unknown;
}

function parse(text: string): Problem | null {
  try {
    return JSON.parse(text) as Problem | null;
  } catch {
    return null;
  }
}

/** Shortens the text of another server. */
function shown(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

/**
 * Says that an answer is not one of this server: most likely the path is wrong.
 *
 * @param url of the request
 * @param answer as far as it is known
 */
export function notThrottr(url: string, status: number, answer: string): string {
  const { origin, pathname } = new platform.URL(url);
  const said = answer === "" ? "" : `: ${shown(answer)}`;
  return `${origin}${pathname} did not answer as a Throttr server (HTTP ${status}${said}): the address of a server inside a Worker has its path, such as https://app.example.com/throttr-edge`;
}
