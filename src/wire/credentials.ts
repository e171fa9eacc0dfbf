/**
 * Credentials that name a namespace. The name is part of what a caller sends as its token, so that every door, and every
 * client with an option for a token, can send it.
 */

/** On a server that is open to any namespace, `namespace.NAME` in place of a token chooses one. No JWT begins like it. */
export const OPEN_NAMESPACE = "namespace.";

/**
 * Stands between a token for all namespaces and the one that a request is about: `TOKEN~NAME`. It may be part of a header,
 * of a subprotocol and of a URL as it is, and no JWT and no name has it. A release without such tokens refuses them.
 */
export const NAMED = "~";

/**
 * The credentials for a namespace, made of those for all.
 *
 * @param token a token for all namespaces; null, or `namespace.NAME`, for a server that is open to any of them
 */
export function credentialsFor(token: string | null, namespace: string): string {
  if (token === null || token.startsWith(OPEN_NAMESPACE)) return OPEN_NAMESPACE + namespace;
  return token.split(NAMED, 1)[0]! + NAMED + namespace;
}
