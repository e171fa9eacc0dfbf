/** What a token says of itself, to be shown. The server checks it; nothing here trusts it. */

/** Of a token, what the dashboard shows. */
export interface Claims {
  readonly namespace: string;
  readonly scopes: readonly string[];
  readonly keyPrefixes: readonly string[];
  readonly channelPrefixes: readonly string[];
  /** Ms since the epoch. */
  readonly expiresAtMs: number;
}

/** The claims of a JWT; null for what is none. */
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
