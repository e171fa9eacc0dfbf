/** Errors over HTTP: problem details (RFC 9457) with a stable `code`. */

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

/** What a failed call to an object is to the caller: whether it was applied is unknown, unless it was refused. */
export function problemOfFailure(error: unknown): Problem {
  const message = error instanceof Error ? error.message : String(error);
  if (message.startsWith("shards_mismatch")) return new Problem(503, "shards_mismatch", message);
  return new Problem(
    503,
    "outcome_unknown",
    "a shard failed; what was not answered may have been applied or not, and was not retried",
  );
}
