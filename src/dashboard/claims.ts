/**
 * Reads the claims of a token, to show them and to hide what the token does not allow. The signature is not checked here:
 * the server checks it with each request.
 */

/** The claims that the dashboard uses. */
export interface Claims {
  readonly namespace: string;
  readonly scopes: readonly string[];
  readonly keyPrefixes: readonly string[];
  readonly channelPrefixes: readonly string[];
  /** Ms since the epoch. */
  readonly expiresAtMs: number;
}

/** The claims of a JWT; null for any other text. */
export function claimsOf(token: string): Claims | null {
  try {
    const payload = token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    return {
      namespace: String(claims["ns"]),
      scopes: namesOf(claims["scopes"]),
      keyPrefixes: namesOf(claims["keyPrefixes"]),
      channelPrefixes: namesOf(claims["channelPrefixes"]),
      expiresAtMs: Number(claims["exp"]) * 1000,
    };
  } catch {
    return null;
  }
}

const namesOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);
