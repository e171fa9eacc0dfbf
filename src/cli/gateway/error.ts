/** An error of the gateway's own: it can't start, reload its certificate, or read its token. */
export class GatewayError extends Error {
  override readonly name = "GatewayError";
  /** Stable: `option_invalid`, `ports_invalid`, `listen_failed`, `tls_invalid`, `token_unreadable`. */
  readonly code: string;

  /** @param detail for people: names the field and the limit */
  constructor(code: string, detail: string, cause?: unknown) {
    super(detail, cause === undefined ? {} : { cause });
    this.code = code;
  }
}

/** The message of a system error. Node leaves it empty where a host has several addresses and all failed: then the code. */
export function detailOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || ((error as NodeJS.ErrnoException).code ?? error.name);
}
