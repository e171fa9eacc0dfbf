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
const counterVectors = {
  document: readFileSync(resolve(vectorsFolder, "yrmcds/document.jsonl"), "utf8"),
  today: readFileSync(resolve(vectorsFolder, "yrmcds/today.jsonl"), "utf8"),
};

/** The project's configuration without open TCP ports: tests reach the handler itself. */
const configPath = resolve(".wrangler/test.toml");
mkdirSync(".wrangler", { recursive: true });
writeFileSync(configPath, configWithPorts({}));

/** Of all random choices. */
const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
console.log(`seed ${seed}: SEED=${seed} repeats the random choices of this run`);

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          provide: { seed },
          testTimeout: 60_000,
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath },
            miniflare: {
              bindings: {
                ACCESS: "open",
                COUNTER_ENABLE: "on",
                TOKEN_SECRET: "test-secret",
                STALL_TIMEOUT_MS: "1000",
                HUBS_MAX: "3",
                HUB_CONNECTIONS_MAX: "20",
              },
            },
          }),
        ],
        test: {
          name: "pool",
          include: ["test/pool/**/*.test.ts"],
          provide: { seed, throttrVectors, counterVectors },
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "process",
          include: ["test/process/**/*.test.ts"],
          globalSetup: ["test/process/build.ts"],
          provide: { seed },
          testTimeout: 300_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
