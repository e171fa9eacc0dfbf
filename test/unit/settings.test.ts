/** Variables: checked against their range, and documented where people look. */
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it, vi } from "vitest";
import { deploy, EMBEDDED, STAND_ALONE } from "../../src/base/deployment.ts";
import {
  assertSettings,
  oldNamesIn,
  parseSettings,
  readSettings,
  type GivenSettings,
} from "../../src/base/settings.ts";

const toml = readFileSync("wrangler.toml", "utf8");
const reference = readFileSync("docs/reference.md", "utf8");
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"];

describe("settings of a server inside another Worker", () => {
  afterEach(() => deploy(STAND_ALONE));

  it("variables have a prefix, and others of the same name are left to the project", () => {
    deploy(EMBEDDED);
    const settings = readSettings({ SHARDS: "2", THROTTR_HUBS_MAX: "3", ACCESS: "mine" });
    expect(settings).toEqual({ ...parseSettings({}), HUBS_MAX: 3 });
  });

  it("a variable wins over a setting in code, which wins over the default", () => {
    deploy({ ...EMBEDDED, settings: { SHARDS: 8, HUBS_MAX: 2, DURABILITY: "relaxed" } });
    const settings = readSettings({ THROTTR_SHARDS: "16", THROTTR_HUBS_MAX: "" });
    expect(settings).toEqual({
      ...parseSettings({}),
      SHARDS: 16,
      HUBS_MAX: 2,
      DURABILITY: "relaxed",
    });
  });

  it("an environment is read again when the settings in code change", () => {
    const env = {};
    deploy({ ...EMBEDDED, settings: { SHARDS: 8 } });
    expect(readSettings(env).SHARDS).toBe(8);
    deploy(EMBEDDED);
    expect(readSettings(env).SHARDS).toBe(1);
  });

  it("a variable out of range is refused by the name that its operator has set", () => {
    deploy(EMBEDDED);
    expect(() => readSettings({ THROTTR_SHARDS: "0" })).toThrow(
      "config_invalid: THROTTR_SHARDS: expected an integer from 1 to 128",
    );
  });

  it("variables with names of release 0.4 are not read, as that release could not be embedded", () => {
    deploy(EMBEDDED);
    expect(readSettings({ THROTTR_COUNTER_ENABLE: "on" }).YRMCDS_ENABLE).toBe("off");
  });

  it.each([
    [{ SHARDS: 0 }, "settings.SHARDS: expected an integer from 1 to 128"],
    [{ SHARDS: true }, "settings.SHARDS: expected an integer from 1 to 128"],
    [{ ACCESS: "yes" }, "settings.ACCESS: expected one of token, open"],
    [{ CORS_ORIGINS: 7 }, "settings.CORS_ORIGINS: expected a text"],
    [{ SHARD: 7 }, "settings.SHARD: there is no such setting; docs/reference.md lists them"],
  ])("the settings %j are refused with the name of the field", (settings, message) => {
    expect(() => assertSettings(settings as GivenSettings)).toThrow(`config_invalid: ${message}`);
  });

  it("settings in code may be numbers, words, texts or missing", () => {
    assertSettings({ SHARDS: 8, ACCESS: "open", HOSTS: "example.com", HUBS_MAX: undefined });
  });
});

describe("settings", () => {
  it.each(Object.entries(readSettings({})))(
    "the variable %s has its default in wrangler.toml and docs/reference.md",
    (name, value) => {
      if (SECRETS.includes(name)) expect(toml).toMatch(new RegExp(`^# +${name} `, "m"));
      else expect(toml).toContain(`\n${name} = "${value}"\n`);
      const shown = value === "" ? " +" : ` \`${value}\` +`;
      expect(reference).toMatch(new RegExp(`^\\| \`${name}\` +\\|${shown}\\| `, "m"));
    },
  );

  it("the variables of wrangler.toml are the defaults", () => {
    const variables = Object.fromEntries(
      [...toml.matchAll(/^([A-Z_]+) = "(.*)"$/gm)].map(([, name, value]) => [name, value]),
    );
    expect(readSettings(variables)).toEqual(readSettings({}));
  });

  it.each([
    ["SHARDS", "0", "expected an integer from 1 to 128"],
    ["SHARDS", "1.5", "expected an integer from 1 to 128"],
    ["CONNECTIONS_MAX", " ", "expected an integer from 0 to"],
    ["SHARDS", "many", "expected an integer from 1 to 128"],
    ["SHARD_BYTES_MAX", "1", "expected an integer from 1048576 to"],
    ["DURABILITY", "none", "expected one of strict, relaxed"],
    ["ACCESS", "yes", "expected one of token, open"],
    ["LOCATION_HINT", "mars", "expected one of (empty), wnam"],
    ["TCP_DEFAULT_SIZE", "uint128", "expected one of uint8"],
  ])("%s=%s is refused with the variable's name", (name, value, message) => {
    expect(() => readSettings({ [name]: value })).toThrow(`${name}: ${message}`);
  });

  it("a variable with its name of release 0.4 is read, and its new name logged once", () => {
    const log = vi.spyOn(console, "warn").mockImplementation(() => {});
    const old = { COUNTER_ENABLE: "on", COUNTER_CONNECTIONS_MAX: 7 };
    const expected = { ...readSettings({}), YRMCDS_ENABLE: "on", YRMCDS_CONNECTIONS_MAX: 7 };
    expect(readSettings(old)).toEqual(expected);
    expect(readSettings({ ...old })).toEqual(expected);
    expect(log.mock.calls.map(([line]) => JSON.parse(line as string) as unknown)).toEqual([
      { event: "variable_renamed", variable: "COUNTER_ENABLE", name: "YRMCDS_ENABLE" },
      {
        event: "variable_renamed",
        variable: "COUNTER_CONNECTIONS_MAX",
        name: "YRMCDS_CONNECTIONS_MAX",
      },
    ]);
    log.mockRestore();
  });

  it("a variable with its old name is checked for its range", () => {
    const old = { COUNTER_CONNECTIONS_MAX: "-1" };
    expect(() => readSettings(old)).toThrow(
      "YRMCDS_CONNECTIONS_MAX: expected an integer from 0 to",
    );
  });

  it("a variable with both names is accepted when the values agree, and refused when they differ", () => {
    const both = { COUNTER_ENABLE: "on", YRMCDS_ENABLE: "on" };
    expect(oldNamesIn(both)).toEqual([{ variable: "COUNTER_ENABLE", name: "YRMCDS_ENABLE" }]);
    expect(parseSettings(both).YRMCDS_ENABLE).toBe("on");
    expect(parseSettings({ COUNTER_ENABLE: "", YRMCDS_ENABLE: "on" }).YRMCDS_ENABLE).toBe("on");
    expect(() => parseSettings({ COUNTER_ENABLE: "on", YRMCDS_ENABLE: "off" })).toThrow(
      "config_invalid: COUNTER_ENABLE is on, but YRMCDS_ENABLE is off: COUNTER_ENABLE is the old name of YRMCDS_ENABLE; set YRMCDS_ENABLE alone",
    );
  });
});
