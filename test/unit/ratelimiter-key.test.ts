/** Keys: what strangers call themselves, as names that the core takes. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { encodeKey } from "../../src/ratelimit/index.ts";
import { isName } from "../../src/wire/ratelimit/keys.ts";
import { runs } from "../support/runs.ts";
import { textArbitrary } from "../support/text/strings.ts";

const RUNS = { seed: inject("seed"), numRuns: runs(2_000) };

/** The text of a key that is not hashed, by the documented rules; null for one that is. */
function decodeKey(encoded: string): string | null {
  if (!encoded.startsWith(".")) return encoded;
  if (!encoded.includes("+")) return null;
  const bytes = encoded.slice(1).replaceAll("+", "%");
  return decodeURIComponent(bytes);
}

function hashOf(key: string): string {
  return "." + createHash("sha256").update(key, "utf8").digest("base64url");
}

/** Texts around what matters: the alphabet, the marker, escapes, hashes, lengths about 64. */
const awkwardText = fc.oneof(
  textArbitrary({ minLength: 1, maxLength: 80 }),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 80 }),
  fc.string({
    unit: fc.constantFrom(".", "+", "2", "E", "B", "a", "/", "é", "\ud800", "\udc00", "\ufffd"),
    minLength: 1,
    maxLength: 12,
  }),
  fc.stringMatching(/^[A-Za-z0-9_\-:.@+]{60,66}$/),
  fc.stringMatching(/^\.[A-Za-z0-9_-]{43}$/),
);

describe("keys", () => {
  const table: [string, string, string][] = [
    ["IPv4", "203.0.113.7", "203.0.113.7"],
    ["IPv6", "2001:db8::1", "2001:db8::1"],
    ["loopback", "::1", "::1"],
    ["e-mail", "ada+work@example.com", "ada+work@example.com"],
    ["phone", "+4930123456", "+4930123456"],
    ["64 bytes", "k".repeat(64), "k".repeat(64)],
    ["path", "/api/users", ".+2Fapi+2Fusers"],
    ["IPv6 with zone", "fe80::1%eth0", ".fe80::1+25eth0"],
    ["space", "a b", ".a+20b"],
    ["letters of others", "é", ".+C3+A9"],
    ["beyond the plane", "😀", ".+F0+9F+98+80"],
    ["zero", "\0", ".+00"],
    ["newline", "a\n", ".a+0A"],
    ["marker", ".env", ".+2Eenv"],
    ["marker inside", "a.b", "a.b"],
    ["escaped", ".+2Eenv", ".+2E+2B2Eenv"],
    ["an escape that needs escaping", "+/", ".+2B+2F"],
    ["half a pair", "\ud800", ".+ED+A0+80"],
    ["the other half", "a\udfffb", ".a+ED+BF+BFb"],
    ["replacement", "\ufffd", ".+EF+BF+BD"],
    ["escaped to 64 bytes", "/".repeat(21), "." + "+2F".repeat(21)],
    ["escaped to 65 bytes", "/".repeat(21) + "a", hashOf("/".repeat(21) + "a")],
    ["65 bytes", "k".repeat(65), hashOf("k".repeat(65))],
    ["a page", "ü".repeat(5_000), hashOf("ü".repeat(5_000))],
    ["hashed", hashOf("x"), ".+2E" + hashOf("x").slice(1)],
  ];
  it.each(table)("keys become record names: %s", async (_, key, encoded) => {
    expect(await encodeKey(key)).toBe(encoded);
  });

  it("record names are always names that the core accepts", async () => {
    await fc.assert(
      fc.asyncProperty(awkwardText, async (key) => {
        expect(isName(await encodeKey(key))).toBe(true);
      }),
      RUNS,
    );
  });

  it("keys can be read back from their record names unless they are hashed", async () => {
    await fc.assert(
      fc.asyncProperty(awkwardText, async (key) => {
        fc.pre(key.isWellFormed());
        const encoded = await encodeKey(key);
        expect(decodeKey(encoded) ?? encoded).toBe(encoded === hashOf(key) ? encoded : key);
      }),
      RUNS,
    );
  });

  it("different keys never have the same record name", async () => {
    await fc.assert(
      fc.asyncProperty(awkwardText, awkwardText, async (first, second) => {
        fc.pre(first !== second);
        expect(await encodeKey(first)).not.toBe(await encodeKey(second));
      }),
      RUNS,
    );
  });

  it("a key that looks like a record name never has that name", async () => {
    await fc.assert(
      fc.asyncProperty(awkwardText, async (key) => {
        const encoded = await encodeKey(key);
        fc.pre(encoded !== key);
        expect(await encodeKey(encoded)).not.toBe(encoded);
      }),
      RUNS,
    );
  });

  it("ill-formed keys differ from each other", async () => {
    const halves = Array.from({ length: 0x800 }, (_, i) => String.fromCharCode(0xd800 + i));
    const long = halves.map((half) => half + "x".repeat(100));
    const encoded = await Promise.all([...halves, ...long].map(encodeKey));
    expect(new Set(encoded).size).toBe(2 * 0x800);
  });

  it("an empty key is refused", async () => {
    await expect(encodeKey("")).rejects.toMatchObject({ code: "key_invalid" });
    await expect(encodeKey(undefined as never)).rejects.toMatchObject({ code: "key_invalid" });
  });
});
