/** Errors over HTTP: problem details (RFC 9457) with a stable `code`, from the one table of codes in `wire/edge/codes.ts`. */
import { statusOf, titleOf, type ProblemCode } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** `Retry-After` of a request for which there was no memory, in seconds: unfinished bodies end soon. */
const RETRY_AFTER_S = "1";

/** An invalid field of a request. */
export interface FieldError {
  /** Its path, such as `strategy.quotas[0].limit`; empty for the whole. */
  readonly field: string;
  /** For people: what was expected, and what came. */
  readonly message: string;
}

/** A request with invalid fields. The message has them as a sentence for people; the answer lists them for programs. */
export class FieldsInvalid extends ThrottrError {
  readonly errors: readonly FieldError[];

  constructor(code: "body_invalid" | "query_invalid", errors: readonly FieldError[]) {
    const texts = errors.map(({ field, message }) => (field === "" ? "" : `${field}: `) + message);
    super(code, texts.join("; "));
    this.errors = errors;
  }
}

/** Whether HTTP answers with a code. Any other is a fault of the server, and its text only for the log. */
export const isProblem = ({ code }: ThrottrError): boolean =>
  statusOf(code) !== null && code !== "internal";

/** The answer that describes an error. The code, and not the thrower, decides the status. */
export function problemResponse(code: ProblemCode, { detail, errors }: ProblemDetails): Response {
  const status = statusOf(code)!;
  const problem = {
    type: `/docs#${code}`,
    title: titleOf(code),
    status,
    code,
    detail,
    ...(errors === undefined ? {} : { errors }),
  };
  const headers = new Headers({
    "content-type": "application/problem+json",
    "cache-control": "no-store",
  });
  if (code === "bodies_max") headers.set("retry-after", RETRY_AFTER_S);
  // RFC 9110, section 15.5.2: every 401 must have a challenge.
  if (status === 401) headers.set("www-authenticate", "Bearer");
  return new Response(JSON.stringify(problem), { status, headers });
}

/** What an error adds to its code. */
interface ProblemDetails {
  readonly detail: string;
  readonly errors?: readonly FieldError[];
}

/**
 * 405, with the methods that the route has, which RFC 9110 wants in `Allow` too.
 *
 * @param allowed the methods that the route has
 */
export function methodNotAllowed(
  allowed: readonly string[],
  detail = `Allowed methods: ${allowed.join(", ")}`,
): Response {
  const response = problemResponse("method_not_allowed", { detail });
  response.headers.set("allow", allowed.join(", "));
  return response;
}
