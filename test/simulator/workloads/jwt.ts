/** Tokens as an issuer of the deployment signs them: JWTs, HS256. */
import { createHmac } from "node:crypto";

/** `TOKEN_SECRET` of the deployment. */
export const TOKEN_SECRET = "secret of simulated tokens";

export function signedToken(claims: object): string {
  const text = `${encoded({ alg: "HS256", typ: "JWT" })}.${encoded(claims)}`;
  return `${text}.${createHmac("sha256", TOKEN_SECRET).update(text).digest("base64url")}`;
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
