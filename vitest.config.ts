import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { configWithPorts } from "./scripts/server.ts";

/** Recorded exchanges: the folder that VECTORS names, else those beside the checkout, else the copy. */
const vectorsFolder = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (folder) => folder !== undefined && existsSync(folder),
)!;
const throttrFolder = resolve(vectorsFolder, "throttr");
const throttrVectors = readdirSync(throttrFolder)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => readFileSync(resolve(throttrFolder, name), "utf8"))
  .join("\n");
const yrmcdsVectors = {
  document: readFileSync(resolve(vectorsFolder, "yrmcds/document.jsonl"), "utf8"),
  today: readFileSync(resolve(vectorsFolder, "yrmcds/today.jsonl"), "utf8"),
};

/** The project's configuration without open TCP ports: tests reach the handler itself. */
const configPath = resolve(".wrangler/test.toml");
mkdirSync(".wrangler", { recursive: true });
writeFileSync(configPath, configWithPorts({}));

/** Of all random choices. This file is read more than once: the first time chooses. */
process.env.SEED ??= announced(Date.now() % 2 ** 31);
const seed = Number(process.env.SEED);

function announced(chosen: number): string {
  console.log(`seed ${chosen}: SEED=${chosen} repeats the random choices of this run`);
  return String(chosen);
}

/** The share of the inputs of properties in plain Node: see `test/support/runs.ts`. */
const runs = Number(process.env.RUNS ?? 0.25);

/** Properties with many inputs, and servers and browsers that start, take their time while other tests have the processor. */
const patience = {
  testTimeout: 300_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 20_000 } },
};

/** Where servers that tests start write what `npm start` would print. */
process.env.SERVER_LOG ??= resolve(".wrangler/test-servers.log");

export default defineConfig({
  test: {
    // Most tests wait, for a clock, an alarm or a process: more of them than cores run at once.
    maxWorkers: 4,
    // A test that fails prints what it has logged; failures that passing tests provoke are no news.
    silent: "passed-only",
    reporters: [["default", { summary: false }]],
    slowTestThreshold: 20_000,
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          setupFiles: ["test/support/runtime/stand-alone.ts"],
          provide: { seed, runs },
          ...patience,
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath },
            miniflare: {
              bindings: {
                ACCESS: "open",
                YRMCDS_ENABLE: "on",
                // Several shards from the first write on: splits have tests of their own.
                SHARDS: "4",
                TOKEN_SECRET: "test-secret",
                STALL_TIMEOUT_MS: "1000",
                HUBS_MAX: "3",
                HUB_CONNECTIONS_MAX: "20",
                // `reset` removes the databases of those objects alone that are running.
                ACCEPT_DATA_LOSS: "on",
              },
            },
          }),
        ],
        test: {
          name: "pool",
          include: ["test/pool/**/*.test.ts"],
          setupFiles: ["test/support/runtime/stand-alone.ts"],
          globalSetup: ["test/support/runtime/log.ts"],
          provide: { seed, throttrVectors, yrmcdsVectors },
          ...patience,
        },
      },
      {
        test: {
          name: "process",
          include: ["test/process/**/*.test.ts"],
          globalSetup: ["test/support/process/build.ts"],
          provide: { seed },
          ...patience,
        },
      },
    ],
  },
});
