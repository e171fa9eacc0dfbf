/** `throttr-edge deploy`, as far as it goes without an account: what would be deployed, and what is refused. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { unstable_readConfig } from "wrangler";
import { configWithPorts } from "../../scripts/server.ts";
import { parseSettings } from "../../src/base/settings.ts";
import { writePackageConfig } from "../../src/cli/deploy/package-config.ts";

const OBJECTS = ["SHARD (Shard)", "HUB (Hub)", "CHANNEL (Channel)", "DIRECTORY (Directory)"];
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"];

const folder = mkdtempSync(join(tmpdir(), "throttr-deploy-test-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Outcome {
  readonly status: number | null;
  readonly said: string;
}

/** Runs `npm run deploy -- --dry-run`. */
const deploy = (args: readonly string[], secrets: Readonly<Record<string, string>> = {}) =>
  deployIn(".", ["src/cli/main.ts", "deploy", "--config=wrangler.toml", ...args], secrets);

/** Runs the command in a folder. */
function deployIn(
  cwd: string,
  args: readonly string[],
  secrets: Readonly<Record<string, string>> = {},
): Outcome {
  const none = Object.fromEntries(SECRETS.map((name) => [name, ""]));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...args, "--dry-run", `--outdir=${join(folder, "out")}`],
    {
      cwd,
      encoding: "utf8",
      env: {
        ...process.env,
        ...none,
        CLOUDFLARE_ENV: "",
        NO_COLOR: "1",
        TMPDIR: folder,
        WRANGLER_SEND_METRICS: "false",
        ...secrets,
      },
    },
  );
  return { status, said: stdout + stderr };
}

const notToml = join(folder, "no.toml");
writeFileSync(notToml, "[vars]\nSHARDS = [\n");

/** The project's configuration with a variable changed, without a dashboard to build. */
function configWith(name: string, value: string): string {
  const path = join(folder, `${name}.toml`);
  const config = configWithPorts({}).replace(
    new RegExp(`^${name} = .*`, "m"),
    `${name} = "${value}"`,
  );
  writeFileSync(path, config);
  return path;
}

describe("npm run deploy", () => {
  it.each(["", "staging", "production"])(
    "a deployment has all objects in environment %j",
    (environment) => {
      const args = environment === "" ? [] : ["--env", environment];
      const outcome = deploy(args, { TOKEN_SECRET: "correct horse" });
      expect(outcome).toMatchObject({ status: 0 });
      const { said } = outcome;
      for (const object of OBJECTS) expect(said).toContain(`env.${object}`);
      expect(said).toContain('env.ACCESS ("token")');
      // The secret goes along, is not shown, and is left nowhere.
      expect(said).toContain('env.TOKEN_SECRET ("(hidden)")');
      expect(said).not.toContain("correct horse");
      expect(said).not.toContain("access_not_configured");
      expect(said).toContain("TOKEN_SECRET has 13 bytes: 32 or more are advised\n");
      expect(readdirSync(folder).filter((name) => /^throttr-deploy-(?!test)/.test(name))).toEqual(
        [],
      );
    },
  );

  it("a deployment without a secret says what to do", () => {
    const config = configWith("METRICS", "on");
    const outcome = deploy(["-c", config, "-e", "staging"]);
    expect(outcome).toMatchObject({ status: 0 });
    const { said } = outcome;
    expect(said).toContain("access_not_configured, unless it keeps ACCESS=open");
    expect(said).toContain("npx wrangler secret put TOKEN_SECRET --env staging\n");
    expect(said).not.toContain("are advised");
  });

  it("an open deployment says who has access", () => {
    const secrets = { TOKEN_SECRET: "x".repeat(32) };
    const outcome = deploy(["--config", configWith("ACCESS", "open")], secrets);
    expect(outcome).toMatchObject({ status: 0 });
    const { said } = outcome;
    expect(said).toContain("ACCESS is open");
    expect(said).not.toContain("are advised");
    expect(said).not.toContain("access_not_configured");
  });

  it.each([
    [
      "an environment that there is not",
      ["--env", "stagin"],
      "wrangler.toml has no environment stagin; it has staging, production",
    ],
    ["a file that there is not", ["--config", "none.toml"], "there is no none.toml"],
    ["a file that is not TOML", ["--config", notToml], "no.toml: "],
    [
      "a variable out of its range",
      ["-c", configWith("SHARDS", "0")],
      "SHARDS: expected an integer from 1 to 128; nothing was deployed",
    ],
    [
      "a flag with a variable out of its range",
      ["--var", "SHARDS=0"],
      "SHARDS: expected an integer from 1 to 128; nothing was deployed",
    ],
    ["a flag with ports that can't be read", ["--var", "TCP_PORTS=9000=9"], "TCP_PORTS: 9000=9: "],
    ["a flag with an unknown variable", ["--var", "SHARD=1"], "unknown variable SHARD;"],
    ["a flag with a secret", ["--var", "TOKEN_SECRET=x"], "set TOKEN_SECRET in the environment"],
    ["a flag that is not an assignment", ["--var", "SHARDS:1"], "expected NAME=value"],
  ])("nothing is deployed with %s", (_, args, part) => {
    const { status, said } = deploy(args);
    expect(status).toBe(2);
    expect(said).toContain(part);
    expect(said).not.toMatch(/^ +at |Node\.js v|wrangler 4/m);
  });

  it("a variable of a flag takes the place of the configuration's", () => {
    const { said } = deploy(["-c", configWith("METRICS", "on"), "--var", "METRICS=off"]);
    expect(said).toContain('env.METRICS ("(hidden)")');
  });
});

describe("throttr-edge deploy from the package", () => {
  const project = join(folder, "empty");
  const cli = join(project, "node_modules/throttr-edge/dist/cli.js");

  beforeAll(() => {
    mkdirSync(project);
    execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], {
      stdio: "pipe",
    });
    const packed = readdirSync(folder).find((name) => name.endsWith(".tgz"))!;
    const install = ["install", "--offline", "--no-audit", "--no-save", join(folder, packed)];
    execFileSync("npm", install, { cwd: project, stdio: "pipe" });
    symlinkSync(resolve("node_modules/wrangler"), join(project, "node_modules/wrangler"));
  });

  it("the package deploys the server without a checkout, a build or a configuration", () => {
    const args = ["deploy", "--env", "staging", "--var", "SHARDS=8"];
    const outcome = deployIn(project, [cli, ...args], { TOKEN_SECRET: "x".repeat(32) });
    expect(outcome).toMatchObject({ status: 0 });
    const { said } = outcome;
    for (const object of OBJECTS) expect(said).toContain(`env.${object}`);
    expect(said).toMatch(/Read \d{2} files from the assets directory/);
    expect(said).toContain('env.SHARDS ("8")');
    expect(said).not.toContain("env.ACCESS");
    expect(said).not.toMatch(/custom build|WARNING/i);
    expect(readFileSync(join(folder, "out/worker.js"), "utf8")).toMatch(
      /sourceMappingURL=worker\.js\.map\n$/,
    );
    // Nothing is left in the project, or elsewhere.
    expect(readdirSync(project).filter((name) => name !== ".wrangler")).toEqual(["node_modules"]);
    expect(readdirSync(folder).filter((name) => /^throttr-deploy-(?!test)/.test(name))).toEqual([]);
  });

  it.each(["SIGTERM", "SIGHUP"] as const)("%s leaves no secrets behind", async (name) => {
    const own = mkdtempSync(join(folder, "hung-"));
    const wrangler = join(own, "node_modules/wrangler");
    mkdirSync(join(wrangler, "bin"), { recursive: true });
    writeFileSync(join(wrangler, "package.json"), '{ "version": "4.155.0" }');
    const waits = 'require("node:fs").writeFileSync("started", ""); setInterval(() => {}, 1000);';
    writeFileSync(join(wrangler, "bin/wrangler.js"), waits);
    const temporary = join(own, "tmp");
    mkdirSync(temporary);
    const env = { ...process.env, TMPDIR: temporary, TOKEN_SECRET: "x".repeat(40) };
    const options = { cwd: own, env, stdio: "ignore" } as const;
    const child = spawn(process.execPath, [resolve("src/cli/main.ts"), "deploy"], options);
    const ended = once(child, "exit");
    await vi.waitFor(() => expect(existsSync(join(own, "started"))).toBe(true), 20_000);
    const [made] = readdirSync(temporary);
    expect(readdirSync(join(temporary, made!))).toContain("secrets.json");
    child.kill(name);
    expect(await ended).toEqual([143, null]);
    expect(readdirSync(temporary)).toEqual([]);
  });

  it("a deployment from the package without a secret names the Worker that needs it", () => {
    const { said } = deployIn(project, [cli, "deploy", "--name", "limits", "-e", "eu"]);
    expect(said).toContain("npx wrangler secret put TOKEN_SECRET --name limits-eu\n");
    const wrong = deployIn(project, [cli, "deploy", "--name", "Limits!"]);
    expect(wrong).toMatchObject({ status: 2 });
  });

  it("the package deploys what the configuration of a checkout says", () => {
    const own = mkdtempSync(join(folder, "own-"));
    const read = (config: string) => unstable_readConfig({ config }, { hideWarnings: true });
    const FIELDS = [
      "name",
      "compatibility_date",
      "compatibility_flags",
      "durable_objects",
      "migrations",
      "observability",
      "upload_source_maps",
    ] as const;
    const fields = (config: string) => {
      const all = read(config);
      const { directory: _directory, ...served } = all.assets!;
      return [served, ...FIELDS.map((name) => [name, all[name]])];
    };
    expect(fields(writePackageConfig(own, "throttr-edge", {}))).toEqual(fields("wrangler.toml"));
    // Variables that a deployment does not name stay: those of wrangler.toml are the defaults.
    expect(read(join(own, "wrangler.json")).keep_vars).toBe(true);
    expect(parseSettings(read("wrangler.toml").vars)).toEqual(parseSettings({}));
  });
});

describe("variables that release 0.4.0 had by another name", () => {
  const own = mkdtempSync(join(folder, "renamed-"));

  /** The variables of the server after some deployments, each with the variables of its flags. */
  function deployed(...deployments: readonly Readonly<Record<string, string>>[]): object {
    return deployments.reduce((before, given) => {
      const config = writePackageConfig(own, "throttr-edge", given);
      const { vars } = JSON.parse(readFileSync(config, "utf8")) as { vars: object };
      // `keep_vars`: what the configuration does not name stays.
      return { ...before, ...vars };
    });
  }

  it("a variable that is given by its new name replaces the one that release 0.4.0 has deployed by its old name", () => {
    const before = { COUNTER_ENABLE: "off", COUNTER_CONNECTIONS_MAX: "0" };
    expect(parseSettings(deployed(before, { YRMCDS_ENABLE: "on" })).YRMCDS_ENABLE).toBe("on");
    expect(deployed(before, { SHARDS: "4" })).toEqual({ ...before, SHARDS: "4" });
  });

  it("a variable that is given by its old name replaces the one that was deployed by its new name", () => {
    const before = { YRMCDS_ENABLE: "on" };
    expect(parseSettings(deployed(before, { COUNTER_ENABLE: "off" })).YRMCDS_ENABLE).toBe("off");
    expect(deployed(before, { COUNTER_ENABLE: "" })).toEqual({ ...before, COUNTER_ENABLE: "" });
    const both = { COUNTER_ENABLE: "off", YRMCDS_ENABLE: "off" };
    expect(parseSettings(deployed(before, both)).YRMCDS_ENABLE).toBe("off");
  });
});

describe("the deploy button", () => {
  const { cloudflare } = JSON.parse(readFileSync("package.json", "utf8")) as {
    cloudflare: { bindings: Record<string, { description: string }> };
  };

  it("the deploy button asks for the secret, and describes existing variables", () => {
    const example = readFileSync(".dev.vars.example", "utf8");
    const asked = [...example.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name!);
    expect(asked).toEqual(["TOKEN_SECRET"]);
    const described = Object.keys(cloudflare.bindings);
    expect(described).toEqual(expect.arrayContaining(asked));
    const known = Object.keys(parseSettings({}));
    expect(described.filter((name) => !known.includes(name))).toEqual([]);
  });
});
