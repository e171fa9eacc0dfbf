/** `npm run deploy`, as far as it goes without an account: what would be deployed, and what is refused. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { configWithPorts } from "../../scripts/server.ts";
import { parseSettings } from "../../src/base/settings.ts";

const OBJECTS = ["SHARD (Shard)", "HUB (Hub)", "CHANNEL (Channel)", "DIRECTORY (Directory)"];
const SECRETS = ["TOKEN_SECRET", "TOKEN_SECRET_PREVIOUS", "SHARD_SECRET"];

const folder = mkdtempSync(join(tmpdir(), "throttr-deploy-test-"));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Outcome {
  readonly status: number | null;
  readonly said: string;
}

function deploy(args: readonly string[], secrets: Readonly<Record<string, string>> = {}): Outcome {
  const none = Object.fromEntries(SECRETS.map((name) => [name, ""]));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["scripts/deploy.ts", "--dry-run", `--outdir=${join(folder, "out")}`, ...args],
    {
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
    expect(said).toContain("access_not_configured");
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
    ["an environment that there is not", ["--env", "stagin"], '["staging","production"]'],
    ["a file that there is not", ["--config", "none.toml"], "none.toml"],
    ["a file that is no TOML", ["--config", notToml], "no.toml:3: "],
  ])("a deployment prints no more than wrangler does of %s", (_, args, part) => {
    const { status, said } = deploy(args);
    expect(status).toBe(1);
    expect(said).toContain(part);
    expect(said).toMatch(/\nNothing was deployed\.\n$/);
    expect(said).not.toMatch(/^ +at |Node\.js v|UserError/m);
  });

  it("nothing is deployed with a variable out of its range", () => {
    const { status, said } = deploy(["-c", configWith("SHARDS", "0")]);
    expect(status).toBe(2);
    expect(said).toBe(
      "config_invalid: SHARDS: expected an integer from 1 to 128\nNothing was deployed.\n",
    );
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
