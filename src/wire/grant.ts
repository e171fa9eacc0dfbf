/** What a caller may do: the answer to `GET /v1/access`. */
import type { ScopeName } from "./throttr/requests.ts";

export interface Grant {
  readonly namespace: string;
  readonly scopes: readonly ScopeName[];
  /** Keys must begin with one of these; empty for any key. */
  readonly keyPrefixes: readonly string[];
  /** Channels must begin with one of these; empty for any channel. */
  readonly channelPrefixes: readonly string[];
  /** The caller may list the namespaces, and choose one of them for each request. */
  readonly isForAllNamespaces: boolean;
  /** The server has the API reference at `/docs`. */
  readonly hasReference: boolean;
  /** The server's time of this answer, ms since the epoch. */
  readonly atMs: number;
  /** When the access ends, ms since the epoch; null for never. */
  readonly expiresAtMs: number | null;
}
