/** `init` as its users have it: from the packed package, in projects of several shapes, with wrangler as the judge. */
import { execFileSync, spawnSync } from "node:child_process";
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
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, waitUntilReady } from "../../scripts/server.ts";

const PORT = 18_821;
const MODULE = `import { counts } from "./counts";

export class Room {}

export default {
  async fetch(): Promise<Response> {
    return new Response(await counts());
  },
};
`;
/** Uses what was exported, so that a build without it fails. */
const COUNTS = `import { throttr } from "throttr-edge/worker";

export const counts = async (): Promise<string> =>
  String(await throttr({ namespace: "app" }).increment("visits", { ttlMs: 60_000 }));
`;

/** Has the package in its node_modules, as a project around the others. */
const projects = mkdtempSync(join(tmpdir(), "throttr-init-projects-"));
const cli = join(projects, "node_modules/throttr-edge/dist/cli.js");

beforeAll(() => {
  const pack = ["pack", "--ignore-scripts", "--pack-destination", projects];
  execFileSync("npm", pack, { stdio: "pipe" });
  const packed = readdirSync(projects).find((name) => name.endsWith(".tgz"))!;
  const install = ["install", "--offline", "--no-audit", "--no-save", `./${packed}`];
  execFileSync("npm", install, { cwd: projects, stdio: "pipe" });
  for (const name of ["wrangler", "typescript", "@cloudflare/workers-types"]) {
    const link = join(projects, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(resolve("node_modules", name), link);
  }
});

afterAll(() => rmSync(projects, { recursive: true, force: true }));

function project(name: string, files: Readonly<Record<string, string>>): string {
  const folder = join(projects, name);
  mkdirSync(join(folder, "src"), { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  return folder;
}

function init(cwd: string, ...flags: readonly string[]): string {
  return execFileSync(process.execPath, [cli, "init", ...flags], { cwd, encoding: "utf8" });
}

/** What wrangler says of a deployment that stays at home. */
function dryRun(folder: string, ...flags: readonly string[]): { status: number; said: string } {
  const wrangler = resolve("node_modules/wrangler/bin/wrangler.js");
  const outcome = spawnSync(process.execPath, [wrangler, "deploy", "--dry-run", ...flags], {
    cwd: folder,
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1", WRANGLER_SEND_METRICS: "false" },
  });
  return { status: outcome.status ?? -1, said: outcome.stdout + outcome.stderr };
}

const SHAPES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  jsonc: {
    "wrangler.jsonc": `{
  "name": "app", // mine
  "main": "src/index.ts",
  "compatibility_date": "2026-01-01",
}
`,
  },
  toml: {
    "wrangler.toml": `name = "app" # mine
main = "src/index.ts"
compatibility_date = "2024-09-23"

[env.staging]
vars = { LEVEL = "debug" }
`,
  },
  migrations: {
    "wrangler.toml": `name = "app"
main = "src/index.ts"
compatibility_date = "2026-01-01"
compatibility_flags = ["nodejs_compat"]

[[durable_objects.bindings]]
name = "ROOMS"
class_name = "Room"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
`,
  },
};

describe("init from the packed package", () => {
  it.each(Object.keys(SHAPES))("wrangler accepts a project of the shape %s", (shape) => {
    const folder = project(shape, {
      ...SHAPES[shape],
      "src/index.ts": MODULE,
      "src/counts.ts": COUNTS,
    });
    expect(init(folder, "--yes")).toContain("wrote wrangler.");
    expect(init(folder, "--yes")).toBe("nothing to change\n");
    const environments = shape === "toml" ? ["", "staging"] : [""];
    for (const environment of environments) {
      const { status, said } = dryRun(folder, `--env=${environment}`);
      expect(said).not.toContain("WARNING");
      expect({ status, said }).toMatchObject({ status: 0 });
      if (shape === "toml") expect(said).toContain("env.THROTTR_DIRECTORY (Directory)");
    }
  });

  it("a new project has its types right, is accepted, and answers 429 to the eleventh request", async () => {
    init(projects, "my-app", "--yes");
    const folder = join(projects, "my-app");
    const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
      dependencies: Record<string, string>;
    };
    const packed = dependencies["throttr-edge"]!;
    expect(packed).toMatch(/^file:\.\.\/throttr-edge-.*\.tgz$/);
    expect(existsSync(join(folder, packed.slice("file:".length)))).toBe(true);
    const compile = () =>
      execFileSync(resolve("node_modules/.bin/tsc"), ["-p", folder], { stdio: "pipe" });
    expect(compile).not.toThrow();
    expect(dryRun(folder)).toMatchObject({ status: 0 });
    const config = join(folder, "wrangler.jsonc");
    const server = startServer({ config, port: PORT, persistTo: join(folder, "state") });
    try {
      await waitUntilReady(PORT, []);
      const statuses: number[] = [];
      for (let i = 0; i < 11; i++) {
        const response = await fetch(`http://127.0.0.1:${PORT}/`);
        await response.arrayBuffer();
        statuses.push(response.status);
      }
      expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
      const page = await fetch(`http://127.0.0.1:${PORT}/throttr-edge/dashboard`);
      expect(await page.text()).toContain("<title>");
    } finally {
      await server.kill();
    }
  });
});
