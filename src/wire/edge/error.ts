/**
 * What a call is refused for, or fails with: codes are stable, words are not.
 *
 * An error that crosses from one Worker to another loses its class, and where one of the two has a
 * compatibility date before 2026-04-21 everything but its message too. So the message begins with the
 * code, and whoever gets one reads it from there.
 */

const CODE = /^(?:\w*Error: )?([a-z][a-z0-9_]*)(?:: |$)/;

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
   * The error that a message says, or that another one stands for.
   *
   * @param otherwise the code of one that says none; of a call that may have been applied, as far as is
   * known, `outcome_unknown`
   */
  static from(cause: unknown, otherwise = "internal"): ThrottrError {
    if (cause instanceof ThrottrError) return cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    const code = CODE.exec(message)?.[1];
    return code === undefined
      ? new ThrottrError(otherwise, message, { cause })
      : new ThrottrError(code, message.slice(message.indexOf(code) + code.length + 2), { cause });
  }
}
