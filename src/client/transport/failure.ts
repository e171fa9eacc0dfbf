/** What servers, and the platforms between, say when something fails. */
import { ThrottrError } from "../../wire/edge/error.ts";

/** Longest stretch of a foreign answer that a message shows. */
const SHOWN_MAX = 100;

/**
 * The error that a text of the server's says; null when the text is not the server's. Its codes have two
 * words or more, which no platform's messages begin with.
 */
export function errorOfText(text: string, cause?: unknown): ThrottrError | null {
  const { code, detail } = ThrottrError.from(text);
  return code.includes("_") ? new ThrottrError(code, detail, { cause }) : null;
}

/** The error that an HTTP answer says; null when the answer is not the server's. */
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

/** A foreign text, in short. */
export function shown(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}
