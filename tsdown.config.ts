/** Builds the package: the libraries that callers import, the server and the command line as one file each. */
import { dirname, resolve } from "node:path";
import { defineConfig, type UserConfig } from "tsdown";
import { pageModules } from "./scripts/page-modules.ts";

/** What the platform, or whoever installs the package, has. */
const OUTSIDE = [
  /^node:/,
  /^cloudflare:/,
  "hono-rate-limiter",
  "miniflare",
  /^rate-limiter-flexible\//,
];

/** Where plugins take long, as on a busy machine, nothing is wrong: the bundler would warn of it at length. */
const checks = { bundlerTimings: false };

/** The server, one file without dependencies. Both of its builds are made with these. */
const SERVER = {
  platform: "browser",
  target: "es2024",
  tsconfig: "tsconfig.worker.json",
  dts: false,
  minify: true,
  checks,
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

/** What other projects import, as far as it runs anywhere. */
const LIBRARY = {
  client: "src/client/index.ts",
  ratelimit: "src/ratelimit/index.ts",
  hono: "src/hono/index.ts",
  fetch: "src/adapters/fetch/index.ts",
  "better-auth": "src/adapters/better-auth/index.ts",
  "express-rate-limit": "src/adapters/express-rate-limit/index.ts",
  "rate-limiter-flexible": "src/adapters/rate-limiter-flexible/index.ts",
  keyv: "src/adapters/keyv/index.ts",
  nestjs: "src/adapters/nestjs/index.ts",
  unstorage: "src/adapters/unstorage/index.ts",
  testing: "src/testing/index.ts",
};

/**
 * The server as a part of other Workers. Each part is an entry of its own, so that a bundler leaves out those that a
 * Worker does not import: `sideEffects` holds for files.
 */
const EMBEDDED = {
  "embedded/shard": "src/objects/shard/shard.ts",
  "embedded/hub": "src/objects/hub/hub.ts",
  "embedded/channel": "src/objects/channel/channel.ts",
  "embedded/directory": "src/objects/channel/directory.ts",
  "embedded/entrypoint": "src/worker/rpc.ts",
  "embedded/connect": "src/embedded/connect.ts",
  "embedded/route": "src/embedded/route.ts",
  "embedded/throttr": "src/embedded/throttr.ts",
  "embedded/throttr-edge": "src/embedded/throttr-edge.ts",
  "embedded/worker": "src/embedded/index.ts",
  "embedded/dashboard": "src/embedded/dashboard.ts",
  "embedded/docs": "src/embedded/docs.ts",
};

/** Declarations come from the compiler of TypeScript 7, which the plugin calls experimental. */
const DECLARATIONS = {
  dts: { generator: "tsgo", emitDtsOnly: true },
  suppressWarnings: /TypeScript 7\.0/,
  checks,
} as const;

export default defineConfig([
  {
    name: "library",
    // One build, so that an error of the server is an instance of the client's class, too.
    entry: { ...LIBRARY, ...EMBEDDED },
    plugins: [pageModules],
    checks,
    // Declarations have the comments; in the code, bundlers would keep them as a part of each Worker.
    outputOptions: { comments: { legal: true, annotation: true, jsdoc: false } },
    platform: "neutral",
    target: "es2024",
    tsconfig: "tsconfig.worker.json",
    dts: false,
    deps: {
      neverBundle: OUTSIDE,
      // A peer of the middleware's types; the doors bring their own.
      alwaysBundle: [/^hono(\/|$)/],
      onlyBundle: ["hono", "valibot", "@valibot/to-json-schema"],
    },
  },
  {
    name: "types",
    // One build, so that all entries share their types: TypeScript takes two copies of a class for two classes.
    entry: {
      ...LIBRARY,
      "embedded/worker": "src/embedded/index.ts",
      "embedded/dashboard": "src/embedded/dashboard.ts",
      "embedded/docs": "src/embedded/docs.ts",
    },
    platform: "neutral",
    tsconfig: "tsconfig.types.json",
    ...DECLARATIONS,
    // `await using` works with clients and test servers; the types of a project need not have it.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    deps: { neverBundle: [...OUTSIDE, /^hono(\/|$)/], onlyBundle: [] },
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
    checks,
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
