/**
 * What a call is refused for, or fails with: codes are stable, words are not.
 *
 * An error that crosses from one object or Worker to another loses its class. Its own properties, and with
 * them the code, cross where both have a compatibility date of 2026-04-21 or later
 * (`enhanced_error_serialization`). Callers over a service binding may have an earlier one, and the objects of
 * release 0.4 threw plain errors: of those only the message crosses, so every message begins with its code.
 */

/** What a code looks like. Codes of Node (`ECONNRESET`) and of its libraries do not. */
const CODE = /^[a-z][a-z0-9_]*$/;
/** The code that a message begins with. Some runtimes put the name of the error in front. */
const CODE_OF_MESSAGE = /^(?:\w*Error: )?([a-z][a-z0-9_]*)(?:: |$)/;

/** An error with a stable code. Its message is `code: detail`. */
export class ThrottrError extends Error {
  override readonly name = "ThrottrError";
  /** Such as `key_invalid` or `outcome_unknown`; docs/reference.md lists them. */
  readonly code: string;

  /** @param detail for people: what was expected, what came, and what to do */
  constructor(code: string, detail: string, options?: ErrorOptions) {
    super(`${code}: ${detail}`, options);
    this.code = code;
  }

  /** The message without the code. */
  get detail(): string {
    return this.message.slice(this.code.length + 2);
  }

  /**
   * The error that another one stands for, after it has crossed between objects or Workers; or that a text
   * says.
   *
   * @param otherwise the code of one that has none. For a call that may have been applied, `outcome_unknown`
   */
  static from(cause: unknown, otherwise = "internal"): ThrottrError {
    if (cause instanceof ThrottrError) return cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    const code = ownCode(cause) ?? CODE_OF_MESSAGE.exec(message)?.[1];
    if (code === undefined) return new ThrottrError(otherwise, message, { cause });
    const at = message.indexOf(code);
    const detail = at === -1 ? message : message.slice(at + code.length + 2);
    return new ThrottrError(code, detail, { cause });
  }
}

function ownCode(cause: unknown): string | undefined {
  if (!(cause instanceof Error)) return undefined;
  const { code } = cause as { code?: unknown };
  return typeof code === "string" && CODE.test(code) ? code : undefined;
}
