/** Builds the package: the libraries that callers import, the server and the command line as one file each. */
import { dirname, resolve } from "node:path";
import { defineConfig, type UserConfig } from "tsdown";

/** What the platform, or whoever installs the package, has. */
const OUTSIDE = [
  /^node:/,
  /^cloudflare:/,
  /^hono(\/|$)/,
  "hono-rate-limiter",
  "miniflare",
  /^rate-limiter-flexible\//,
];

/** The server, one file without dependencies. Both of its builds are made with these. */
const SERVER = {
  platform: "browser",
  target: "es2024",
  tsconfig: "tsconfig.worker.json",
  dts: false,
  minify: true,
  // Durable Objects and entrypoints are found by the names of their classes.
  outputOptions: { keepNames: true, sourcemapExcludeSources: true },
  deps: {
    neverBundle: [/^cloudflare:/],
    alwaysBundle: [/^(?!cloudflare:)/],
    onlyBundle: ["hono", "valibot", "@valibot/to-json-schema"],
    onlyImport: [/^cloudflare:/],
  },
} satisfies UserConfig;

/** Puts the clock of tests in the place of the server's. */
const testClock = {
  name: "test-clock",
  resolveId: (source: string, importer = "") =>
    resolve(dirname(importer), source) === resolve("src/base/clock.ts")
      ? resolve("src/test-worker/clock.ts")
      : null,
};

/** Faster parts of `ws`, which does without them. */
const ADDONS = ["bufferutil", "utf-8-validate"];

export default defineConfig([
  {
    name: "library",
    entry: {
      client: "src/client/index.ts",
      ratelimit: "src/ratelimit/index.ts",
      hono: "src/hono/index.ts",
      fetch: "src/adapters/fetch/index.ts",
      "better-auth": "src/adapters/better-auth/index.ts",
      "express-rate-limit": "src/adapters/express-rate-limit/index.ts",
      "rate-limiter-flexible": "src/adapters/rate-limiter-flexible/index.ts",
      testing: "src/testing/index.ts",
    },
    platform: "neutral",
    target: "es2024",
    tsconfig: "tsconfig.library.json",
    dts: { generator: "tsgo" },
    // `await using` works with clients and test servers; the types of a project need not have it.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    // Declarations come from the compiler of TypeScript 7, which the plugin calls experimental.
    suppressWarnings: /TypeScript 7\.0/,
    deps: { neverBundle: OUTSIDE, onlyBundle: [] },
    publint: { strict: true },
    attw: { profile: "esm-only", level: "error" },
  },
  {
    name: "worker",
    entry: { worker: "src/worker/index.ts" },
    ...SERVER,
    // `serve` reads it for the stack traces in its log.
    sourcemap: "hidden",
  },
  {
    name: "test-worker",
    entry: { "test-worker": "src/test-worker/index.ts" },
    ...SERVER,
    plugins: [testClock],
  },
  {
    name: "cli",
    entry: { cli: "src/cli/main.ts" },
    platform: "node",
    target: "node20",
    tsconfig: "tsconfig.node.json",
    dts: false,
    minify: true,
    fixedExtension: false,
    // jsonc-parser's main file requires others by names that a bundler cannot follow; its "module" imports them.
    inputOptions: { resolve: { mainFields: ["module", "main"] } },
    deps: {
      neverBundle: [/^node:/, "miniflare", ...ADDONS],
      alwaysBundle: [/^(?!node:|miniflare$)/],
      onlyBundle: false,
      onlyImport: ["miniflare"],
    },
  },
]);
