/** Variables: checked against their range, and documented where people look. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readSettings } from "../../src/base/settings.ts";

const toml = readFileSync("wrangler.toml", "utf8");
const reference = readFileSync("docs/reference.md", "utf8");
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"];

describe("settings", () => {
  it.each(Object.entries(readSettings({})))(
    "%s has its default in wrangler.toml and docs/reference.md",
    (name, value) => {
      if (SECRETS.includes(name)) expect(toml).toMatch(new RegExp(`^# +${name} `, "m"));
      else expect(toml).toContain(`\n${name} = "${value}"\n`);
      const shown = value === "" ? " +" : ` \`${value}\` +`;
      expect(reference).toMatch(new RegExp(`^\\| \`${name}\` +\\|${shown}\\| `, "m"));
    },
  );

  it("of wrangler.toml are the defaults", () => {
    const variables = Object.fromEntries(
      [...toml.matchAll(/^([A-Z_]+) = "(.*)"$/gm)].map(([, name, value]) => [name, value]),
    );
    expect(readSettings(variables)).toEqual(readSettings({}));
  });

  it.each([
    ["SHARDS", "0", "an integer from 1 to 128"],
    ["SHARDS", "1.5", "an integer from 1 to 128"],
    ["SHARDS", "many", "an integer from 1 to 128"],
    ["SHARD_BYTES_MAX", "1", "an integer from 1048576 to"],
    ["DURABILITY", "none", "one of strict, relaxed"],
    ["ACCESS", "yes", "one of token, open"],
    ["LOCATION_HINT", "mars", "one of (empty), wnam"],
    ["TCP_DEFAULT_SIZE", "uint128", "one of uint8"],
  ])("%s=%s is refused, by name", (name, value, message) => {
    expect(() => readSettings({ [name]: value })).toThrow(`${name}: ${message}`);
  });
});
