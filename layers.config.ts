/**
 * Which folder of src may import which: `npm run check:layers` fails on an import that is not in this table, and on
 * any circle of files, imports of types included. docs/architecture.md says what lives in each folder. It also fails where
 * the server reads the clock elsewhere than in the file for it.
 */
import { defineConfig, type OxlintOverride } from "oxlint";

/** Each folder, and the folders that it may import from beside itself. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  wire: [],
  engine: ["wire"],
  base: ["wire", "engine"],
  dispatch: ["wire", "engine", "base"],
  objects: ["wire", "engine", "base", "dispatch"],
  worker: ["wire", "engine", "base", "dispatch", "objects"],
  "test-worker": ["wire", "engine", "base", "dispatch", "objects", "worker"],

  client: ["wire"],
  ratelimit: ["wire"],
  adapters: ["wire", "client", "ratelimit"],
  hono: ["wire", "client", "ratelimit", "adapters"],
  testing: ["wire", "base", "client"],
  dashboard: ["wire", "client"],
  embedded: ["wire", "engine", "base", "dispatch", "objects", "worker", "client"],
  cli: ["wire", "base", "dispatch", "worker", "client", "ratelimit"],
};

/** The folders of the server. Its clock is one file, in whose place the build for tests puts another. */
const SERVER = ["wire", "engine", "base", "dispatch", "objects", "worker"];
const CLOCK = "src/base/clock.ts";

/** Folders within folders, at most. Imports are relative, so it depends on the depth how one leaves its folder. */
const DEPTH_MAX = 3;

export default defineConfig({
  plugins: ["import", "typescript"],
  categories: { correctness: "off" },
  rules: {
    "import/no-cycle": ["error", { ignoreTypes: false }],
    // The rules below see import declarations, not `import("…")` in a type.
    "typescript/consistent-type-imports": ["error", { disallowTypeAnnotations: true }],
  },
  overrides: [
    ...layers(),
    {
      files: SERVER.map((folder) => `src/${folder}/**/*.ts`),
      excludeFiles: [CLOCK],
      rules: {
        "no-restricted-properties": [
          "error",
          { object: "Date", property: "now", message: `Use presentMs or stopwatchMs of ${CLOCK}.` },
        ],
      },
    },
  ],
});

function layers(): OxlintOverride[] {
  return Object.entries(LAYERS).flatMap(([folder, below]) => {
    const others = Object.keys(LAYERS).filter((other) => other !== folder);
    const forbidden = others.filter((other) => !below.includes(other)).join("|");
    return Array.from({ length: DEPTH_MAX + 1 }, (_, depth) => ({
      files: [`src/${folder}/${"*/".repeat(depth)}*.{ts,tsx}`],
      rules: {
        "no-restricted-imports": [
          "error",
          { patterns: [{ regex: `^(\\.\\./){${depth + 1}}(${forbidden})/` }] },
        ],
      },
    }));
  });
}
