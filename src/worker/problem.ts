/** Errors over HTTP: problem details (RFC 9457) with a stable `code`. */
import { reportFailure } from "../base/failure.ts";
import type { ThrottrError } from "../wire/edge/error.ts";
import { meaningOf, type ProblemCode } from "./problem-codes.ts";

/** When to try again what there was no room for: unfinished bodies come and go within moments. */
const RETRY_AFTER_S = "1";

/** What is wrong with one field of a request. */
export interface FieldError {
  /** Its path, such as `strategy.quotas[0].limit`; empty for the whole. */
  readonly field: string;
  /** For people: what is expected, and what came. */
  readonly message: string;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly errors: readonly FieldError[];

  /**
   * @param code stable, for programs
   * @param detail for people: names the field and the limit. A code in front of it is left out
   */
  constructor(status: number, code: string, detail: string, errors: readonly FieldError[] = []) {
    super(withoutCode(code, detail));
    this.status = status;
    this.code = code;
    this.errors = errors;
  }

  /** A problem with the status that its code has. */
  static of(code: ProblemCode, detail: string, errors?: readonly FieldError[]): Problem {
    return new Problem(meaningOf(code)[0], code, detail, errors);
  }

  /** What a call was refused for, as HTTP tells it; null where the code says nothing to a caller. */
  static from({ code, message }: ThrottrError): Problem | null {
    const [status] = meaningOf(code);
    return status === 500 ? null : new Problem(status, code, message);
  }

  toResponse(): Response {
    const headers = new Headers({
      "content-type": "application/problem+json",
      "cache-control": "no-store",
    });
    if (this.code === "bodies_max") headers.set("retry-after", RETRY_AFTER_S);
    if (this.status === 401) headers.set("www-authenticate", "Bearer");
    return new Response(JSON.stringify(this), { status: this.status, headers });
  }

  toJSON(): object {
    return {
      type: `/docs#${this.code}`,
      title: meaningOf(this.code)[1],
      status: this.status,
      code: this.code,
      detail: this.message,
      ...(this.errors.length > 0 ? { errors: this.errors } : {}),
    };
  }
}

/** The answer to frames whose shard refused or failed them. */
export function problemOfFailure(error: unknown): Problem {
  const { code, message } = reportFailure(error);
  return new Problem(503, code, message);
}

/** A text without the code that it may begin with: clients put the code in front of the detail. */
function withoutCode(code: string, message: string): string {
  const prefix = `${code}: `;
  return message.startsWith(prefix) ? message.slice(prefix.length) : message;
}
