/** Ends connections whose tokens were revoked, when the Directory tells a Hub. */
import { revocationListOf, type Access } from "../../base/access.ts";
import {
  RevocationCheck,
  type RevocableToken,
  type Revocations,
} from "../../engine/revocations.ts";
import type { Connection } from "./connection.ts";
import { TOKEN_REVOKED } from "./ending.ts";

/**
 * Closes the connections of revoked tokens, and returns how many there were.
 *
 * @param issuer `ns` of the tokens that the list is about: the namespace, or that of tokens for all
 */
export function endRevoked(
  connections: Iterable<Connection>,
  issuer: string,
  list: Revocations,
): number {
  const check = new RevocationCheck(list);
  let ended = 0;
  for (const connection of connections) {
    const { access, isClosed } = connection;
    const token = tokenOf(access);
    if (isClosed || token === null || revocationListOf(access) !== issuer) continue;
    if (!check.isRevoked(token)) continue;
    // What is under way is not waited for: its holder must not go on.
    connection.close(TOKEN_REVOKED);
    ended++;
  }
  return ended;
}

/** Attachments of release 0.4 don't say which token it was. Every token had an end, and nothing else did in that release. */
function tokenOf({ token, expiresAtMs, isSession }: Access): RevocableToken | null {
  if (token !== undefined) return token;
  return expiresAtMs === null || isSession === true ? null : { id: null, issuedAtS: null };
}
