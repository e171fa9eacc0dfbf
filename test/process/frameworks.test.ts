/**
 * The examples for frameworks, as projects of their own. Their tools are not installed here, so the tests run where
 * FRAMEWORKS=1 allows them to install from the registry, with the lock file of each example.
 */
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { waitUntilReady } from "../../scripts/server.ts";

const INSTALL_TIMEOUT_MS = 900_000;

/** An example, the scripts that must pass, and the program that serves what was built. */
const EXAMPLES: readonly (readonly [
  name: string,
  builds: readonly (readonly string[])[],
  serve: readonly string[],
])[] = [
  [
    "react-router",
    [
      ["run", "check"],
      ["run", "build"],
    ],
    ["vite", "preview", "--strictPort"],
  ],
  [
    "astro",
    [
      ["run", "check"],
      ["run", "build"],
    ],
    ["astro", "preview"],
  ],
  [
    "opennext",
    [["exec", "opennextjs-cloudflare", "build"]],
    ["wrangler", "dev", "--inspector-port=0"],
  ],
];

const projects = mkdtempSync(join(tmpdir(), "throttr-frameworks-"));
const env = {
  ...process.env,
  ASTRO_TELEMETRY_DISABLED: "1",
  NEXT_TELEMETRY_DISABLED: "1",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  XDG_CONFIG_HOME: join(projects, "config"),
  CI: "true",
};

describe.skipIf(process.env.FRAMEWORKS !== "1")(
  "examples for frameworks, with FRAMEWORKS=1",
  () => {
    beforeAll(() => {
      const pack = ["pack", "--ignore-scripts", "--pack-destination", projects];
      execFileSync("npm", pack, { stdio: "pipe" });
    });

    afterAll(() => rmSync(projects, { recursive: true, force: true }));

    it.each(EXAMPLES.map((example, i) => [...example, 18_831 + i] as const))(
      "the example %s builds, answers 429 and shows what it has refused",
      async (name, builds, serve, port) => {
        const cwd = join(projects, name);
        cpSync(`examples/${name}`, cwd, { recursive: true });
        const npm = (...args: readonly string[]) =>
          execFileSync("npm", args, { cwd, env, stdio: "pipe" });
        npm("ci", "--no-audit", "--no-fund");
        for (const build of builds) npm(...build);
        const served = ["--no", "--", ...serve, `--port=${port}`];
        const server = spawn("npx", served, { cwd, env, stdio: "ignore", detached: true });
        try {
          // Some of these servers listen on ::1 alone.
          const url = `http://localhost:${port}`;
          await waitUntilReady(port, [], 60_000, url);
          const statuses: number[] = [];
          let last: Response | undefined;
          for (let i = 0; i < 12; i++) {
            last = await fetch(url);
            await last.arrayBuffer();
            statuses.push(last.status);
            if (last.status === 429) break;
          }
          expect(statuses.length).toBeGreaterThan(3);
          expect(statuses.filter((status) => status !== 200)).toEqual([429]);
          expect(last!.headers.get("ratelimit-policy")).toBe('"page";q=5;w=5');
          const figures = await fetch(`${url}/throttr-edge/v1/limits`, {
            headers: { authorization: `Bearer namespace.${name}` },
          });
          expect(await figures.json()).toMatchObject({
            limits: [{ name: "page", refused: { total: 1 } }],
          });
        } finally {
          process.kill(-server.pid!, "SIGKILL");
        }
      },
      INSTALL_TIMEOUT_MS,
    );
  },
);
