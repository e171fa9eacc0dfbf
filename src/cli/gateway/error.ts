/** Why a gateway can't start, or go on as it was told. */
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

/** What went wrong, in the words of the system. A host with several addresses fails with a code and no words. */
export function detailOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || ((error as NodeJS.ErrnoException).code ?? error.name);
}
