/** Errors out of what servers, and the platforms in front of them, answer when something fails. */
import { ThrottrError } from "../../wire/edge/error.ts";

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

/** Reads an error out of an HTTP answer; null when the answer is not one of this server. */
export async function errorOfResponse(response: {
  text(): Promise<string>;
}): Promise<ThrottrError | null> {
  const problem = parse(await response.text());
  if (typeof problem?.code !== "string") return null;
  return errorOfText(`${problem.code}: ${String(problem.detail)}`);
}

function parse(text: string): { code?: unknown; detail?: unknown } | null {
  try {
    return JSON.parse(text) as { code?: unknown; detail?: unknown } | null;
  } catch {
    return null;
  }
}

/** Shortens the text of another server. */
export function shown(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}
