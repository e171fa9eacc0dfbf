/** The token that a gateway shows: given once, or in a file that is read for each connection. */
import { open } from "node:fs/promises";
import { detailOf, GatewayError } from "./error.ts";

/** Gives the token for a connection, or null when none is to be shown. */
export type TokenSource = () => Promise<string | null>;

/** No token of the server's has so many: a header could not carry it. */
const TOKEN_BYTES_MAX = 8192;

/** The same token for all connections. @throws GatewayError `token_unreadable` */
export function givenToken(token: string | null): TokenSource {
  const checked = token === null ? null : checkedToken(token, "the token");
  return () => Promise.resolve(checked);
}

/**
 * The token that a file holds when a connection is opened: whoever replaces the file rotates it. White
 * space around it does not count. The source throws GatewayError `token_unreadable`.
 */
export function tokenOfFile(path: string): TokenSource {
  return async () => {
    try {
      const file = await open(path);
      try {
        const bytes = Buffer.alloc(TOKEN_BYTES_MAX + 1);
        const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
        return checkedToken(bytes.toString("latin1", 0, bytesRead).trim(), path);
      } finally {
        await file.close();
      }
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      throw new GatewayError("token_unreadable", detailOf(error), error);
    }
  };
}

/** Says nothing of the token itself: it would end in a log. */
function checkedToken(token: string, where: string): string {
  if (token.length <= TOKEN_BYTES_MAX && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new GatewayError(
    "token_unreadable",
    `${where}: 1 to ${TOKEN_BYTES_MAX} visible ASCII characters are expected`,
  );
}
