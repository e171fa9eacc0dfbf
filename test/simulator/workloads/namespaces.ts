/**
 * Namespaces of a run. Most clients share the default one. Neighbours use the same keys in another, by each way that leads there: a token,
 * the props of a binding, a TCP port.
 */
import { signedToken } from "./jwt.ts";

export const DEFAULT = "default";
export const NEIGHBOUR = "neighbour";

/** Issued before each run begins, whatever a door's clock shows, and valid until it has ended: seconds since the epoch. */
const ISSUED_AT_S = Date.UTC(2025, 0) / 1000;
const EXPIRES_AT_S = Date.UTC(2027, 0) / 1000;

/** What a client sends to reach a namespace over HTTP; null where it needs nothing. */
export const tokenOf = (namespace: string): string | null =>
  namespace === DEFAULT
    ? null
    : signedToken({
        ns: namespace,
        scopes: ["read", "write", "publish", "subscribe", "admin"],
        iat: ISSUED_AT_S,
        exp: EXPIRES_AT_S,
      });

/** The same as headers of a request. */
export function headersOf(namespace: string): Record<string, string> {
  const token = tokenOf(namespace);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

/** @param name of an object */
export const isOfNamespace = (name: string, namespace: string): boolean =>
  name === namespace || name.startsWith(`${namespace}/`);
