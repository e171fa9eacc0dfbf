/** Which server the command line talks to, with which token; and the file of the profiles. */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ConnectionOptions } from "../../src/cli/options.ts";
import {
  profilesPath,
  readProfiles,
  withoutProfile,
  withProfile,
  writeProfiles,
} from "../../src/cli/profiles.ts";
import { connectionSettings } from "../../src/cli/settings.ts";
import { fakeHost } from "../support/cli/host.ts";

let folder: string;
let environment: Record<string, string>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-cli-"));
  environment = { XDG_CONFIG_HOME: folder, HOME: folder };
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const settings = (options: ConnectionOptions, more: Record<string, string> = {}) => {
  const host = fakeHost({ environment: { ...environment, ...more } });
  const { url, token } = connectionSettings(host, options);
  return { url, token };
};

const PROFILES = {
  current: "home",
  profiles: {
    home: { url: "https://home", token: "home-token" },
    work: { url: "https://work", token: "work-token" },
    open: { url: "https://open" },
  },
};

describe("precedence", () => {
  it("the default server is the one on this machine", () => {
    expect(settings({})).toEqual({ url: "http://127.0.0.1:8787", token: null });
  });

  it("a flag wins over the environment, and the environment over a profile", () => {
    writeProfiles(environment, PROFILES);
    const variables = { THROTTR_URL: "https://env", THROTTR_TOKEN: "env-token" };
    expect(settings({})).toEqual({ url: "https://home", token: "home-token" });
    expect(settings({}, variables)).toEqual({ url: "https://env", token: "env-token" });
    expect(settings({ url: "https://flag", token: "flag-token" }, variables)).toEqual({
      url: "https://flag",
      token: "flag-token",
    });
    expect(settings({}, { THROTTR_PROFILE: "work" })).toEqual({
      url: "https://work",
      token: "work-token",
    });
    expect(settings({}, { THROTTR_URL: "", THROTTR_TOKEN: "" }).url).toBe("https://home");
  });

  it("a profile named by a flag wins over the environment", () => {
    writeProfiles(environment, PROFILES);
    const variables = {
      THROTTR_URL: "https://env",
      THROTTR_TOKEN: "env-token",
      THROTTR_PROFILE: "home",
    };
    expect(settings({ profile: "work" }, variables)).toEqual({
      url: "https://work",
      token: "work-token",
    });
    expect(settings({ profile: "open" }, variables)).toEqual({ url: "https://open", token: null });
  });

  it("the token of a profile is sent to no other address", () => {
    writeProfiles(environment, PROFILES);
    expect(settings({ url: "https://other" }).token).toBeNull();
    expect(settings({ url: "https://other", profile: "work" }).token).toBeNull();
    expect(
      settings({}, { THROTTR_URL: "https://other", THROTTR_PROFILE: "work" }).token,
    ).toBeNull();
    expect(settings({ url: "https://work", profile: "work" }).token).toBe("work-token");
  });

  it("an unknown profile is refused by its name", () => {
    writeProfiles(environment, PROFILES);
    expect(() => settings({ profile: "toString" })).toThrow("known: home, work, open");
  });
});

describe("the file of the profiles", () => {
  it("the profile file is readable by its owner alone, also when it already existed", () => {
    writeProfiles(environment, PROFILES);
    const path = profilesPath(environment);
    expect(path).toBe(join(folder, "throttr-edge", "profiles.json"));
    chmodSync(path, 0o644);
    writeProfiles(environment, { ...PROFILES, current: null });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "throttr-edge")).mode & 0o777).toBe(0o700);
    expect(readProfiles(environment)).toEqual({ ...PROFILES, current: null });
  });

  it("the profile file is below the home folder unless XDG_CONFIG_HOME is an absolute path", () => {
    const path = join(folder, ".config", "throttr-edge", "profiles.json");
    expect(profilesPath({ HOME: folder })).toBe(path);
    expect(profilesPath({ HOME: folder, XDG_CONFIG_HOME: "relative" })).toBe(path);
  });

  it.each([
    ["no JSON", "{"],
    ["another shape", '{"current":null,"profiles":{"a":{"token":"t"}}}'],
    ["more than there should be", '{"current":null,"profiles":{},"x":1}'],
  ])("a profile file with %s is refused and left as it is", (_name, text) => {
    const path = profilesPath(environment);
    mkdirSync(join(folder, "throttr-edge"));
    writeFileSync(path, text);
    expect(() => readProfiles(environment)).toThrow(path);
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  it("the first profile becomes the current one until it is removed", () => {
    let file = withProfile({ current: null, profiles: {} }, "a", { url: "https://a" });
    file = withProfile(file, "b", { url: "https://b" });
    expect(file.current).toBe("a");
    expect(withoutProfile(file, "b").current).toBe("a");
    expect(withoutProfile(file, "a")).toEqual({
      current: null,
      profiles: { b: { url: "https://b" } },
    });
    expect(() => withoutProfile(file, "c")).toThrow("known: a, b");
  });

  it.each(["", "a b", "a/b", "x".repeat(65), "__proto__"])(
    "the profile name %j is refused",
    (name) => {
      expect(() =>
        withProfile({ current: null, profiles: {} }, name, { url: "https://a" }),
      ).toThrow("name: expected 1 to 64");
    },
  );
});
