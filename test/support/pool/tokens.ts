/** Tokens that the test deployment accepts. */
import { sign } from "hono/jwt";
import type { Claims } from "../../../src/worker/token.ts";

export const SECRET = "test-secret";
const ALL: Claims["scopes"] = ["read", "write", "publish", "subscribe", "admin"];

export const nowS = (): number => Math.floor(Date.now() / 1000);

export async function tokenOf(claims: Partial<Claims> = {}, secret = SECRET): Promise<string> {
  const payload: Record<string, unknown> = {
    ns: "tests",
    scopes: ALL,
    exp: nowS() + 3600,
    ...claims,
  };
  return await sign(payload, secret, "HS256");
}

export async function bearerOf(
  claims: Partial<Claims> = {},
  secret = SECRET,
): Promise<{ authorization: string }> {
  return { authorization: `Bearer ${await tokenOf(claims, secret)}` };
}
