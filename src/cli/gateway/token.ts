/**
 * The token that a gateway sends to the server: given once, or in a file that is read for each connection.
 *
 * A file is how secrets are rotated: tokens expire, and a gateway that had to be restarted for a new one would drop all
 * clients.
 */
import { open } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { UsageError } from "../failure.ts";
import { WITHOUT_WAITING } from "../files.ts";
import { detailOf } from "./error.ts";

/** Returns the token for a new connection; null to send none. */
export type TokenSource = () => Promise<string | null>;

/** The server has no longer tokens: a header could not carry them. A file of any size is read up to here. */
const TOKEN_BYTES_MAX = 8192;

/** The same token for all connections. @throws UsageError `token_unreadable` */
export function givenToken(token: string | null): TokenSource {
  // Checked once, here: a token with a line break would fail each connection with an error of `ws`.
  const checked = token === null ? null : checkedToken(token, "the token");
  return () => Promise.resolve(checked);
}

/**
 * The token in a file, read whenever a connection is opened: replacing the file rotates the token. White space around it
 * is ignored. The source throws UsageError `token_unreadable`.
 */
export function tokenOfFile(path: string): TokenSource {
  return async () => {
    const read = await beginningOf(path).catch((error: unknown) => {
      throw new UsageError("token_unreadable", detailOf(error));
    });
    return checkedToken(read.trim(), path);
  };
}

/** One byte more than the longest token shows that a file is too long. Latin-1 maps each byte to a character. */
async function beginningOf(path: string): Promise<string> {
  const file = await open(path, WITHOUT_WAITING);
  return await text(file.createReadStream({ encoding: "latin1", end: TOKEN_BYTES_MAX }));
}

/** Checks the form. The error does not quote the text, which may be a secret, and would end in a log. */
function checkedToken(token: string, where: string): string {
  if (token.length <= TOKEN_BYTES_MAX && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError(
    "token_unreadable",
    `${where}: expected 1 to ${TOKEN_BYTES_MAX} visible ASCII characters`,
  );
}
