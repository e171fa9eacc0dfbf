/** Errors over HTTP: problem details (RFC 9457) with a stable `code`. */
import { reportFailure } from "../objects/failure.ts";

export class Problem extends Error {
  readonly status: number;
  readonly code: string;

  /**
   * @param code stable, for programs
   * @param detail for people: names the field and the limit
   */
  constructor(status: number, code: string, detail: string) {
    super(detail);
    this.status = status;
    this.code = code;
  }

  toResponse(): Response {
    const headers = new Headers({ "content-type": "application/problem+json" });
    if (this.status === 401) headers.set("www-authenticate", "Bearer");
    const body = {
      title: TITLES[this.status] ?? "Error",
      status: this.status,
      code: this.code,
      detail: this.message,
    };
    return new Response(JSON.stringify(body), { status: this.status, headers });
  }
}

const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  413: "Content Too Large",
  426: "Upgrade Required",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** The answer to frames whose shard refused or failed them. */
export function problemOfFailure(error: unknown): Problem {
  const { code, message } = reportFailure(error);
  return new Problem(503, code, message);
}
