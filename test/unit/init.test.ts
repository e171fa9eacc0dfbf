/** `init`: what it adds to configurations and modules of any shape, and what it leaves as it is. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, inject, it } from "vitest";
import { unstable_readConfig } from "wrangler";
import { Clients } from "../../src/cli/connection.ts";
import { checkedConfig, missingIn, oldDatesOf, prefixed } from "../../src/cli/init/additions.ts";
import { readConfig, textWith } from "../../src/cli/init/config-file.ts";
import { diffOf } from "../../src/cli/init/diff.ts";
import { withExportLine } from "../../src/cli/init/main-file.ts";
import { writeFiles } from "../../src/cli/init/write-files.ts";
import { carryOut } from "../../src/cli/program.ts";
import { TOOLS, toolsFor } from "../../src/cli/tools.ts";
import { newProject } from "../../src/cli/init/new-project.ts";
import { fakeHost, type FakeHost } from "../support/cli/host.ts";
import { configTextArbitrary } from "../support/cli/wrangler-configs.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const CLASSES = ["Shard", "Hub", "Channel", "Directory"];
const LINE = 'export { Shard, Hub, Channel, Directory } from "throttr-edge/worker";\n';
const MODULE = "export default { fetch: () => new Response() };\n";

const folder = mkdtempSync(join(tmpdir(), "throttr-init-"));
let folders = 0;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A folder with files. */
function folderWith(files: Readonly<Record<string, string>>): string {
  const path = join(folder, String(++folders));
  mkdirSync(join(path, "src"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text);
  return path;
}

const read = (path: string, name: string): string => readFileSync(join(path, name), "utf8");

interface Outcome {
  readonly exitCode: number;
  readonly printed: FakeHost["printed"];
}

/** Runs the command in the process of the tests, on pipes. */
async function init(path: string, ...flags: readonly string[]): Promise<Outcome> {
  const host = fakeHost();
  const signal = new AbortController().signal;
  const exitCode = await carryOut(["init", path, ...flags], {
    host,
    clients: new Clients(),
    flags: {},
    signal,
    renewSignal: () => signal,
    isPrompt: false,
    exitCode: 0,
  });
  return { exitCode, printed: host.printed };
}

/** A configuration's text with what is missing. */
function completed(path: string, raisesDate = false): string {
  const file = readConfig(path);
  const wishes = { classes: prefixed(""), raisesDate, hasExportLine: false };
  return textWith(file, missingIn(checkedConfig(file.config, path), path, wishes));
}

/** The same; null where the library of TOML would lose a comment: behind an empty list within a table on one line. */
function completedUnlessUnsafe(path: string, text: string, raisesDate: boolean): string | null {
  try {
    return completed(path, raisesDate);
  } catch (error) {
    expect(String(error)).toContain("add by hand: [{");
    expect([path, text]).toEqual([
      expect.stringMatching(/toml$/),
      expect.stringMatching(/\[\s*\]|\[\r?\n/),
    ]);
    expect(readFileSync(path, "utf8")).toBe(text);
    return null;
  }
}

/** Whether a text is another one with characters left out. */
function isWithin(part: string, whole: string): boolean {
  let at = 0;
  for (const character of whole) if (character === part[at]) at++;
  return at === part.length;
}

/** What wrangler makes of a configuration, for the Worker itself or an environment of it. */
function readByWrangler(config: string, env: string): WranglerConfig {
  return unstable_readConfig({ config, env }, { hideWarnings: true });
}

interface WranglerConfig {
  readonly compatibility_date?: string | undefined;
  readonly compatibility_flags: string[];
  readonly exports: object;
  readonly migrations: { new_sqlite_classes?: string[] | undefined }[];
  readonly durable_objects: { bindings: { name: string }[] };
}

/** The classes that live in SQLite, as the schema of wrangler says it. */
function sqliteClasses({ exports, migrations }: WranglerConfig): string[] {
  const exported = Object.entries(exports as Record<string, { storage?: string }>);
  return [
    ...exported.flatMap(([name, { storage }]) => (storage === "sqlite" ? [name] : [])),
    ...migrations.flatMap((step) => step.new_sqlite_classes ?? []),
  ];
}

describe("additions to a configuration", () => {
  it("in a configuration of any shape every environment gets classes, the flag and a way to find the classes", () => {
    fc.assert(
      fc.property(configTextArbitrary, fc.boolean(), ({ file, text }, raisesDate) => {
        const path = join(folderWith({ [file]: text }), file);
        const after = completedUnlessUnsafe(path, text, raisesDate);
        if (after === null) return;
        if (!raisesDate) expect(isWithin(text, after)).toBe(true);
        for (const [, note] of text.matchAll(/(note \d+)/g)) expect(after).toContain(note);
        writeFileSync(path, after);
        expect(completed(path, raisesDate)).toBe(after);
        const environments = Object.keys((readConfig(path).config.env ?? {}) as object);
        for (const environment of ["", ...environments]) {
          const config = readByWrangler(path, environment);
          expect(sqliteClasses(config)).toEqual(expect.arrayContaining(CLASSES));
          expect(config.compatibility_flags).toContain("no_web_socket_compression");
          const flags = config.compatibility_flags;
          const isFound =
            !flags.includes("disable_ctx_exports") &&
            (config.compatibility_date! >= "2025-11-17" || flags.includes("enable_ctx_exports"));
          const bound = config.durable_objects.bindings.map((binding) => binding.name);
          const needed = CLASSES.map((name) => `THROTTR_${name.toUpperCase()}`);
          if (!isFound) expect(bound).toEqual(expect.arrayContaining(needed));
        }
      }),
      { seed, numRuns: runs(400) },
    );
  });

  it("a JSON configuration keeps each comment at its line", () => {
    const path = join(
      folderWith({
        "wrangler.jsonc": `// mine
{
    "name": "app", // the name
    "main": "src/index.ts",
    "compatibility_date": "2026-01-01", /* why */
    "vars": {
        "A": "b" // last
    } // the end
}
`,
      }),
      "wrangler.jsonc",
    );
    expect(completed(path)).toBe(`// mine
{
    "name": "app", // the name
    "main": "src/index.ts",
    "compatibility_date": "2026-01-01", /* why */
    "vars": {
        "A": "b" // last
    }, // the end
    "compatibility_flags": ["no_web_socket_compression"],
    "exports": {
        "Shard": { "type": "durable-object", "storage": "sqlite" },
        "Hub": { "type": "durable-object", "storage": "sqlite" },
        "Channel": { "type": "durable-object", "storage": "sqlite" },
        "Directory": { "type": "durable-object", "storage": "sqlite" }
    }
}
`);
  });

  it("a TOML configuration with migrations gets one more, in front of the next table's comment", () => {
    const path = join(
      folderWith({
        "wrangler.toml": `name = "app"
compatibility_date = "2024-01-01"
compatibility_flags = ["no_web_socket_compression"]

[[migrations]]
tag = "v1"
new_sqlite_classes = [
  "Room", # of the chat
]

# One for each region.
[env.eu]
vars = { REGION = "eu" }
`,
      }),
      "wrangler.toml",
    );
    const bindings = (table: string) =>
      CLASSES.map(
        (name) => `
[[${table}]]
name = "THROTTR_${name.toUpperCase()}"
class_name = "${name}"
`,
      ).join("");
    expect(completed(path)).toBe(`name = "app"
compatibility_date = "2024-01-01"
compatibility_flags = ["no_web_socket_compression"]

[[migrations]]
tag = "v1"
new_sqlite_classes = [
  "Room", # of the chat
]

[[migrations]]
tag = "throttr-v1"
new_sqlite_classes = ["Shard", "Hub", "Channel", "Directory"]

# One for each region.
[env.eu]
vars = { REGION = "eu" }
${bindings("durable_objects.bindings")}${bindings("env.eu.durable_objects.bindings")}`);
  });

  it("dates before the one that needs no bindings are listed once each", () => {
    const config = {
      compatibility_date: "2024-01-01",
      env: { a: { compatibility_date: "2024-01-01" }, b: { compatibility_date: "2025-11-17" } },
    };
    expect(oldDatesOf(checkedConfig(config, "x"))).toEqual(["2024-01-01"]);
  });

  it.each<[string, string, string]>([
    [
      "both exports and migrations",
      '{ "exports": { "A": { "type": "durable-object", "storage": "sqlite" } }, "migrations": [{ "tag": "v1" }] }',
      "config_invalid: wrangler.jsonc: it has Durable Objects under both",
    ],
    [
      "the opposite flag",
      '{ "compatibility_flags": ["web_socket_compression"] }',
      "config_invalid: wrangler.jsonc: the flag web_socket_compression contradicts",
    ],
    [
      "a field of another type",
      '{ "env": { "a": { "exports": [] } } }',
      "config_invalid: wrangler.jsonc: env.a.exports: ",
    ],
    [
      "a Pages project",
      '{ "pages_build_output_dir": "dist" }',
      "config_unsupported: wrangler.jsonc: Pages projects",
    ],
    ["a syntax error", '{\n  "name": }', "config_invalid: wrangler.jsonc:2: ValueExpected"],
    ["a list", "[]", "config_invalid: wrangler.jsonc: expected an object"],
    [
      "a class of the same name",
      '{ "exports": { "Hub": { "type": "durable-object", "storage": "sqlite" } } }',
      "class_taken: wrangler.jsonc has a class Hub already",
    ],
    [
      "a class of the same name in an environment",
      '{ "env": { "a": { "exports": { "Hub": { "type": "durable-object", "storage": "sqlite" } } } } }',
      "class_taken: wrangler.jsonc, env.a has a class Hub already",
    ],
    [
      "a class with another storage",
      '{ "migrations": [{ "tag": "v1", "new_classes": ["Shard", "Hub", "Channel", "Directory"] }] }',
      "class_taken: wrangler.jsonc (legacy-kv) has a class Shard already",
    ],
    [
      "a class that was given away",
      '{ "exports": { "Shard": { "type": "durable-object", "state": "transferred", "transferred_to": "x" } } }',
      "class_taken: wrangler.jsonc (transferred) has a class Shard already",
    ],
    [
      "a binding of the same name",
      '{ "compatibility_date": "2024-01-01", "durable_objects": { "bindings": [{ "name": "THROTTR_HUB", "class_name": "Mine" }] } }',
      "binding_taken: wrangler.jsonc: the binding THROTTR_HUB",
    ],
  ])("a configuration with %s is refused and stays as it is", async (_, text, message) => {
    const path = folderWith({ "wrangler.jsonc": text, "src/index.ts": MODULE });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(2);
    expect(printed.err.replace(`${path}/`, "")).toContain(message);
    expect(read(path, "wrangler.jsonc")).toBe(text);
    expect(readdirSync(path)).toEqual(["src", "wrangler.jsonc"]);
  });

  it("a TOML file with a syntax error is refused with its line", async () => {
    const path = folderWith({ "wrangler.toml": 'name = "a"\nmain = \n' });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(2);
    expect(printed.err).toMatch(/config_invalid: .*wrangler\.toml: .*\b2\b/);
  });
});

describe("the Worker's module", () => {
  const edited = (text: string, prefix = ""): string => {
    const edit = withExportLine(text, "src/index.ts", prefixed(prefix));
    return edit.kind === "edited" ? edit.text : edit.kind;
  };

  it("the line follows the imports at the head of the module", () => {
    const head = `#!/usr/bin/env node
/** Mine: import "x"; */
"use strict";
import { a } from "a"; // why
import type {
  B, // no } from "c"
} from 'b'
import data from "./data.json" with { type: "json" };
import "c";
`;
    const rest = `
const later = await import("d");
${MODULE}`;
    expect(edited(head + rest)).toBe(`${head}\n${LINE}${rest}`);
    expect(edited(`import "c"\n${MODULE}`)).toBe(`import "c"\n\n${LINE}\n${MODULE}`);
  });

  it("the line is the last one of a module without imports, and has its line breaks", () => {
    expect(edited(`// mine\n${MODULE}`)).toBe(`// mine\n${MODULE}\n${LINE}`);
    expect(edited("import 'a';\r\nexport default {};\r\n")).toBe(
      `import 'a';\r\n\r\n${LINE.trim()}\r\n\r\nexport default {};\r\n`,
    );
  });

  const PACKAGE = 'from "throttr-edge/worker";\n';
  it.each([
    LINE,
    `export * ${PACKAGE}`,
    `import { Shard, Hub as Mine } ${PACKAGE}export { Shard, Mine as Hub };\n`,
    `import { throttrEdge } ${PACKAGE}export const { Shard, Hub } = throttrEdge();\n`,
    `import { throttrEdge } ${PACKAGE}const { Shard } = throttrEdge();\nexport { Shard };\n`,
    `import { throttrEdge } ${PACKAGE}const edge = throttrEdge({ classes: { Shard: "My" } });\nexport const My = edge.Shard;\n`,
    `import { throttr } ${PACKAGE}export { Shard, Hub, Channel, Directory } from "./objects";\n`,
    `import { throttr } ${PACKAGE}import { Shard, Hub, Channel, Directory } from "./objects";\nexport { Shard, Hub };\nexport { Channel, Directory };\n`,
  ])("a module that exports Throttr's classes is left as it is: %j", (text) => {
    expect(edited(text + MODULE)).toBe("present");
  });

  it.each([`import { routeThrottr, throttr } ${PACKAGE}`, `// ${LINE}`, `/* ${LINE} */\n`])(
    "a module that names Throttr's, and exports none of its classes, gets the line: %j",
    (text) => {
      expect(edited(text + MODULE)).toContain(`\n${LINE}`);
    },
  );

  it.each([
    `import { throttrEdge } ${PACKAGE}`,
    `import { Shard as Base } ${PACKAGE}export class Shard extends Base {}\n`,
    `import { throttr } ${PACKAGE}export * from "./objects";\n`,
  ])("a module that may export Throttr's classes unseen is not edited: %j", (text) => {
    expect(edited(text + MODULE)).toBe("unsafe");
  });

  it("lines that import what a module has imported are not added to it", () => {
    expect(edited(`import { throttr } ${PACKAGE}${MODULE}`, "My")).toBe("unsafe");
  });

  it.each([
    'addEventListener("fetch", () => {});\n',
    "module.exports = { fetch() {} };\n",
    "// export default {}\n",
  ])("a module that is not one of a Worker is not edited: %j", (text) => {
    expect(edited(text)).toBe("unsafe");
  });

  it.each([
    "export class Hub extends DurableObject {}",
    "export { Hub } from './hub';",
    "export { Mine as Hub, other };",
    "export const Hub = wrap(Mine);",
    "export abstract class Hub {}",
  ])("a module with a class of the same name is refused: %s", (line) => {
    expect(() => edited(`${line}\n${MODULE}`)).toThrow("src/index.ts has a class Hub already");
    expect(edited(`${line}\n${MODULE}`, "Throttr")).toContain("Hub: ThrottrHub");
  });

  it("a class of the same name is refused in a module that imports from the package, too", () => {
    const text = `import { throttr } ${PACKAGE}export { Hub } from "./hub";\n${MODULE}`;
    expect(() => edited(text)).toThrow("src/index.ts has a class Hub already");
  });

  it.each([
    "class Hub {}",
    "// export class Hub {}",
    "/* export { Hub } */",
    "export class Hubs {}",
    "export { Hub as Other };",
  ])("a module that only has such a word is edited: %s", (line) => {
    expect(edited(`${line}\n${MODULE}`)).toContain(LINE);
  });
});

describe("the command init", () => {
  const config = '{ "main": "src/index.ts", "compatibility_date": "2026-01-01" }\n';

  it("init changes the configuration and the module once", async () => {
    const path = folderWith({ "wrangler.json": config, "src/index.ts": MODULE });
    const first = await init(path, "--yes");
    expect(first).toMatchObject({ exitCode: 0 });
    expect(first.printed.out).toContain(`+${LINE}`);
    const after = [read(path, "wrangler.json"), read(path, "src/index.ts")];
    expect(after[1]).toBe(MODULE + "\n" + LINE);
    const second = await init(path, "--yes");
    expect(second.printed.out).toBe("nothing to change\n");
    expect([read(path, "wrangler.json"), read(path, "src/index.ts")]).toEqual(after);
  });

  it("init ends with the lines of a first limit in an existing Worker", async () => {
    const named = config.replace("{ ", '{ "name": "shop", ');
    const path = folderWith({ "wrangler.json": named, "src/index.ts": MODULE });
    const { err } = (await init(path, "--yes")).printed;
    for (const line of [
      "paste a first limit into src/index.ts",
      'import { routeThrottr, throttr } from "throttr-edge/worker";',
      'throttr: throttr({ namespace: "shop" }),',
      "await routeThrottr(request, env, ctx, { dashboard });",
      "await guard(request, { limiter, key });",
      "npx wrangler dev --port 8787 --var THROTTR_ACCESS:open --var THROTTR_OPEN_NAMESPACES:any",
      "/throttr-edge/dashboard?namespace=shop#limits",
      "docs/embedding.md",
    ]) {
      expect(err).toContain(line);
    }
    expect((await init(path, "--yes")).printed.err).toBe("");
    const renamed = folderWith({ "wrangler.json": named, "src/index.ts": MODULE });
    const { printed } = await init(renamed, "--yes", "--class-prefix", "My");
    expect(printed.err).not.toContain("import { routeThrottr, throttr }");
  });

  it.each([
    ['import { throttr, type Throttr } from "throttr-edge/worker";\n', "routeThrottr"],
    ['import api, { throttr } from "./throttr";\n', "routeThrottr"],
    [
      'import { throttrEdge } from "throttr-edge/worker";\nexport const { Shard, throttr } = throttrEdge();\n',
      "routeThrottr",
    ],
    [
      '// import { throttr } from "throttr-edge/worker";\nimport { guard } from "throttr-edge/fetch";\n',
      "routeThrottr, throttr",
    ],
  ])("init leaves out of the lines of a first limit what %j has", async (head, names) => {
    const path = folderWith({ "wrangler.json": config, "src/index.ts": head + MODULE });
    const { err } = (await init(path, "--yes")).printed;
    expect(err).toContain(`import { ${names} } from "throttr-edge/worker";`);
    expect(err.includes('import { guard } from "throttr-edge/fetch"')).toBe(
      !head.includes("guard"),
    );
  });

  it("init says which imports the lines for classes with other names replace", async () => {
    const text = `import { Throttr, throttr } from "throttr-edge/worker";\n${MODULE}`;
    const path = folderWith({ "wrangler.json": config, "src/index.ts": text });
    const { err } = (await init(path, "--yes", "--class-prefix", "My")).printed;
    expect(err).toContain('that "main" names instead, in place of its imports of throttr:\n');
    expect(err).toContain("throttr, routeThrottr } = throttrEdge({");
    expect(err).not.toMatch(/import \{[^}]*throttr\b/);
  });

  it("init without --yes shows the changes and writes nothing where no person can be asked", async () => {
    const path = folderWith({ "wrangler.json": config, "src/index.ts": MODULE });
    const { exitCode, printed } = await init(path);
    expect(exitCode).toBe(2);
    expect(printed.out).toContain(`+${LINE}`);
    expect(printed.err).toContain("confirmation_missing");
    expect(read(path, "wrangler.json")).toBe(config);
  });

  it("init does not raise a compatibility date unless it is asked to", async () => {
    const old = config.replace("2026", "2024");
    const kept = folderWith({ "wrangler.json": old, "src/index.ts": MODULE });
    await init(kept, "--yes");
    expect(read(kept, "wrangler.json")).toContain('"2024-01-01"');
    expect(read(kept, "wrangler.json")).toContain("THROTTR_DIRECTORY");
    const raised = folderWith({ "wrangler.json": old, "src/index.ts": MODULE });
    await init(raised, "--yes", "--raise-date");
    expect(read(raised, "wrangler.json")).toContain('"2025-11-17"');
    expect(read(raised, "wrangler.json")).not.toContain("THROTTR_");
  });

  it.each([
    [
      "names a file that does not exist",
      config,
      /src\/index\.ts, which "main" of .* does not exist/,
    ],
    [
      "is missing",
      '{ "assets": { "directory": "public" } }\n',
      /has no "main": a Worker of assets/,
    ],
  ])("init changes nothing where main %s", async (_, text, message) => {
    const path = folderWith({ "wrangler.json": text });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(2);
    expect(printed.err).toMatch(/^throttr-edge: main_missing: /);
    expect(printed.err).toMatch(message);
    expect(read(path, "wrangler.json")).toBe(text);
  });

  it("each environment's own module gets the line, and one of several environments only once", async () => {
    const staging =
      '"staging": { "main": "src/staging.ts" }, "next": { "main": "./src/staging.ts" }';
    const built = '"built": { "main": "dist/worker.js" }';
    const path = folderWith({
      "wrangler.json": config.replace(" }", `, "env": { ${staging}, ${built} } }`),
      "src/index.ts": MODULE,
      "src/staging.ts": MODULE,
    });
    const first = await init(path, "--yes");
    expect(first.printed.err).toContain(
      'Add to dist/worker.js, or to a module that "env.built.main" names instead',
    );
    expect(read(path, "src/index.ts")).toBe(`${MODULE}\n${LINE}`);
    expect(read(path, "src/staging.ts")).toBe(`${MODULE}\n${LINE}`);
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
  });

  const withStaging = config.replace(
    " }",
    ', "env": { "staging": { "main": "src/staging.ts" } } }',
  );
  const edge = (prefix: string) =>
    `import { throttrEdge } from "throttr-edge/worker";\nexport const { Shard: ${prefix}Shard, Hub: ${prefix}Hub } = throttrEdge({\n  classes: { Shard: "${prefix}Shard", Hub: "${prefix}Hub" },\n});\n`;

  it("a module gets the line for the classes that another module of the Worker exports", async () => {
    const path = folderWith({
      "wrangler.json": withStaging,
      "src/index.ts": MODULE,
      "src/staging.ts": edge("My") + MODULE,
    });
    expect(await init(path, "--yes")).toMatchObject({ exitCode: 0 });
    expect(read(path, "src/index.ts")).toContain(
      "export const { Shard: MyShard, Hub: MyHub, throttr, routeThrottr } = throttrEdge({\n" +
        '  classes: { Shard: "MyShard", Hub: "MyHub" },\n});\n',
    );
    expect(read(path, "wrangler.json")).toContain('"MyHub"');
    expect(read(path, "wrangler.json")).not.toMatch(/"Shard"|Directory/);
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
  });

  it.each([edge("Other"), LINE])(
    "modules of a Worker that export different classes are refused: %j",
    async (line) => {
      const path = folderWith({
        "wrangler.json": withStaging,
        "src/index.ts": edge("My") + MODULE,
        "src/staging.ts": line + MODULE,
      });
      const { exitCode, printed } = await init(path, "--yes");
      expect(exitCode).toBe(2);
      expect(printed.err).toMatch(
        /^throttr-edge: class_taken: src\/index\.ts exports Throttr's classes as MyShard, MyHub, and src\/staging\.ts as /,
      );
      expect(read(path, "wrangler.json")).toBe(withStaging);
    },
  );

  it("init finds classes that a module exports by way of another file", async () => {
    const text = `import { throttr } from "throttr-edge/worker";\nexport { Shard, Hub, Channel, Directory } from "./objects";\n${MODULE}`;
    const path = folderWith({ "wrangler.json": config, "src/index.ts": text });
    expect(await init(path, "--yes")).toMatchObject({ exitCode: 0 });
    expect(read(path, "wrangler.json")).toContain('"Directory"');
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
    expect(read(path, "src/index.ts")).toBe(text);
  });

  it.each([
    [
      '{ "main": "src/index.ts", "env": { "staging": { "main": "src/none.ts" } } }\n',
      /src\/none\.ts, which "env\.staging\.main" of .* names, does not exist/,
    ],
    [
      '{ "env": { "staging": { "main": "src/index.ts" } } }\n',
      /has a "main" in environments alone \(env\.staging\.main\)/,
    ],
  ])("a main of an environment is missed by its name: %s", async (text, message) => {
    const path = folderWith({ "wrangler.json": text, "src/index.ts": MODULE });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(2);
    expect(printed.err).toMatch(/^throttr-edge: main_missing: /);
    expect(printed.err).toMatch(message);
    expect(read(path, "src/index.ts")).toBe(MODULE);
  });

  it("init prints the line for a module that a tool writes", async () => {
    const path = folderWith({ "wrangler.json": config.replace("src/index.ts", ".out/worker.js") });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(0);
    expect(printed.err).toContain(LINE);
    expect(read(path, "wrangler.json")).toContain('"Shard"');
  });

  it("init gives classes other names where it is asked to", async () => {
    const path = folderWith({
      "wrangler.json": config,
      "src/index.ts": `export class Hub {}\n${MODULE}`,
    });
    expect((await init(path, "--yes")).printed.err).toContain("--class-prefix Throttr");
    expect(await init(path, "--yes", "--class-prefix", "Throttr")).toMatchObject({ exitCode: 0 });
    expect(read(path, "wrangler.json")).toContain('"ThrottrHub"');
    expect(read(path, "src/index.ts")).toContain("Hub: ThrottrHub");
    expect((await init(path, "--class-prefix", "1")).exitCode).toBe(2);
  });

  const declared = (name: string) => `"${name}": { "type": "durable-object", "storage": "sqlite" }`;
  it.each([
    ["exports", `{ "main": "src/index.ts", "exports": { ${declared("Hub")} } }\n`],
    [
      "migrations",
      '{ "main": "src/index.ts", "compatibility_date": "2024-01-01", "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Hub"] }] }\n',
    ],
  ])("init finds the classes that it gave other names to under %s", async (_, own) => {
    const files = { "wrangler.json": own, "src/index.ts": `export class Hub {}\n${MODULE}` };
    const path = folderWith(files);
    await init(path, "--yes", "--class-prefix", "Throttr");
    const after = [read(path, "wrangler.json"), read(path, "src/index.ts")];
    for (const flags of [[], ["--class-prefix", "Throttr"]]) {
      const again = await init(path, "--yes", ...flags);
      expect(again.printed.out).toBe("nothing to change\n");
    }
    const other = await init(path, "--yes", "--class-prefix", "Other");
    expect(other.printed.err).toContain("class_taken");
    // A module that a tool writes can't be asked: the configuration has the names.
    const built = own.replace("src/index.ts", ".out/worker.js");
    const generated = folderWith({ "wrangler.json": built });
    await init(generated, "--yes", "--class-prefix", "Throttr");
    expect((await init(generated, "--yes")).printed.out).toBe("nothing to change\n");
    expect([read(path, "wrangler.json"), read(path, "src/index.ts")]).toEqual(after);
  });

  it.each([
    'export { Shard } from "throttr-edge/worker";\n',
    'import { throttrEdge } from "throttr-edge/worker";\nexport const { Shard, throttr } = throttrEdge();\n',
  ])("init declares no class that the module does not export: %j", async (line) => {
    const path = folderWith({ "wrangler.json": config, "src/index.ts": line + MODULE });
    await init(path, "--yes");
    expect(read(path, "wrangler.json")).toContain('"Shard"');
    expect(read(path, "wrangler.json")).not.toContain('"Hub"');
    expect(read(path, "src/index.ts")).toBe(line + MODULE);
  });

  it("a Worker that calls Throttr and exports none of its classes gets the line that it lacks", async () => {
    const text = `import { throttr } from "throttr-edge/worker";\n${MODULE}`;
    const path = folderWith({ "wrangler.json": config, "src/index.ts": text });
    await init(path, "--yes");
    expect(read(path, "wrangler.json")).toContain('"Directory"');
    expect(read(path, "src/index.ts")).toContain(LINE);
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
  });

  it("init says each time what a module lacks that it can't edit", async () => {
    const text = `import { throttrEdge } from "throttr-edge/worker";\n${MODULE}`;
    const path = folderWith({ "wrangler.json": config, "src/index.ts": text });
    for (const round of [1, 2]) {
      const { printed } = await init(path, "--yes");
      expect([round, printed.err]).toEqual([round, expect.stringContaining(`:\n\n${LINE}`)]);
    }
    expect(read(path, "src/index.ts")).toBe(text);
  });

  it("a new project has its classes under the names that --class-prefix gives", async () => {
    const path = join(folder, "prefixed");
    await init(path, "--yes", "--class-prefix", "My");
    const declared = [...read(path, "wrangler.jsonc").matchAll(/"(\w+)": \{ "type"/g)];
    expect(declared.map(([, name]) => name)).toEqual([
      "MyShard",
      "MyHub",
      "MyChannel",
      "MyDirectory",
    ]);
    expect(read(path, "src/index.ts")).toContain("Hub: MyHub");
    expect(read(path, "src/index.ts").match(/\bthrottr, routeThrottr\b/g)).toHaveLength(1);
    expect(read(path, "src/index.ts")).not.toContain("import { routeThrottr");
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
  });

  it("init creates a project in a folder that is not there, for scripts in JSON", async () => {
    const path = join(folder, "My App!");
    const { exitCode, printed } = await init(path, "--yes", "--json");
    expect(exitCode).toBe(0);
    const { files } = JSON.parse(printed.out) as { files: string[] };
    const names = ["package.json", "wrangler.jsonc", "src/index.ts", "tsconfig.json", ".gitignore"];
    expect(files).toEqual(names.map((name) => join(path, name)));
    expect(read(path, "wrangler.jsonc")).toContain('"name": "my-app"');
    // A port in the script could not be replaced by `npm run dev -- --port 9000`: wrangler refuses two.
    expect(read(path, "wrangler.jsonc")).toContain('"dev": { "port": 8787 }');
    expect(read(path, "package.json")).not.toContain("--port");
    expect((await init(path, "--yes")).printed.out).toBe("nothing to change\n");
  });

  it("the way into a new project can be pasted into a shell, whatever its folder is called", async () => {
    const { printed } = await init(join(folder, "it's a & b"), "--yes");
    const line = /^ {2}(cd .*)$/m.exec(printed.err)![1]!;
    const { stdout } = spawnSync("sh", ["-c", `${line} && ls`], { encoding: "utf8" });
    expect(stdout).toContain("wrangler.jsonc");
    const plain = await init(join(folder, "plain-name"), "--yes");
    expect(plain.printed.err).toContain(`  cd ${join(folder, "plain-name")}\n`);
  });

  it("a new project keeps secrets and data of a server in its folder out of Git", async () => {
    const path = join(folder, "ignoring");
    await init(path, "--yes");
    spawnSync("git", ["init", "-q"], { cwd: path });
    const isIgnored = (name: string): boolean =>
      spawnSync("git", ["check-ignore", "-q", name], { cwd: path }).status === 0;
    const kept = [".dev.vars", "token-secret", "gateway-token", "throttr-data/lock"];
    expect(kept.filter((name) => !isIgnored(name))).toEqual([]);
    expect(isIgnored("src/index.ts")).toBe(false);
  });

  it("init keeps what a package.json says when it creates a project beside it", async () => {
    const own =
      '{\n  "name": "mine",\n  "scripts": { "dev": "mine" },\n  "dependencies": { "throttr-edge": "file:x.tgz" }\n}\n';
    const path = folderWith({ "package.json": own });
    await init(path, "--yes");
    expect(JSON.parse(read(path, "package.json"))).toEqual({
      name: "mine",
      scripts: { dev: "mine", check: "tsc", deploy: "wrangler deploy" },
      dependencies: { "throttr-edge": "file:x.tgz" },
      devDependencies: toolsFor(process.versions.node),
      allowScripts: { esbuild: true, workerd: true, node: true },
    });
  });

  it.each([
    ["20.20.2", "24.21.0"],
    ["22.11.0", "24.21.0"],
    ["22.12.0", undefined],
    ["24.0.0", undefined],
  ])("a new project on Node %s depends on Node %s", (nodeVersion, node) => {
    const [manifest] = newProject(join(folder, `node-${nodeVersion}`), "", nodeVersion);
    const { devDependencies } = JSON.parse(manifest!.after) as {
      devDependencies: Record<string, string>;
    };
    expect(devDependencies).toEqual(node === undefined ? TOOLS : { ...TOOLS, node });
  });

  it("init does not overwrite a module where a configuration is missing", async () => {
    const path = folderWith({ "src/index.ts": MODULE });
    const { exitCode, printed } = await init(path, "--yes");
    expect(exitCode).toBe(2);
    expect(printed.err).toContain("file_exists");
    expect(readdirSync(path)).toEqual(["src"]);
    const named = await init(path, "-c", join(path, "wrangler.toml"), "--yes");
    expect(named.printed.err).toContain("config_missing");
  });

  it("a path that the system refuses is named, and is no fault of init", async () => {
    const path = folderWith({ file: "" });
    const other = folderWith({});
    rmSync(join(other, "src"), { recursive: true });
    symlinkSync("nowhere", join(other, "src"));
    const refused: [place: string, flags: readonly string[], message: string][] = [
      // A file in place of the folder, a folder in place of the file, and a link to nothing in place of a folder.
      [join(path, "file"), [], "file_unreadable: .+file/wrangler.jsonc: ENOTDIR"],
      [path, ["-c", path], `file_unreadable: ${path}: EISDIR`],
      [other, [], `file_unwritable: .+${other}/src`],
    ];
    for (const [place, flags, message] of refused) {
      const { exitCode, printed } = await init(place, ...flags, "--yes");
      expect(printed.err).toMatch(new RegExp(`^throttr-edge: ${message}`));
      expect(exitCode).toBe(2);
    }
  });

  it("a new project has the tools that this release is tested with", () => {
    const { devDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
      devDependencies: Record<string, string>;
    };
    expect(devDependencies).toMatchObject(toolsFor("20.0.0"));
  });
});

describe("writing files", () => {
  it("files keep their mode, and links lead to the changed file", () => {
    const path = folderWith({ real: "old" });
    chmodSync(join(path, "real"), 0o640);
    symlinkSync("real", join(path, "link"));
    writeFiles([{ path: join(path, "link"), before: "old", after: "new" }]);
    expect(lstatSync(join(path, "link")).isSymbolicLink()).toBe(true);
    expect(read(path, "real")).toBe("new");
    expect(statSync(join(path, "real")).mode & 0o777).toBe(0o640);
  });

  it("no file is written when one has changed meanwhile, or can't be written", () => {
    const path = folderWith({ a: "1", b: "2" });
    const change = { path: join(path, "a"), before: "1", after: "new" };
    const changed = { path: join(path, "b"), before: "0", after: "new" };
    expect(() => writeFiles([change, changed])).toThrow("b changed meanwhile");
    const impossible = { path: join(path, "a", "c"), before: null, after: "new" };
    expect(() => writeFiles([change, impossible])).toThrow(/ENOTDIR|EEXIST/);
    expect(read(path, "a")).toBe("1");
    expect(readdirSync(path)).toEqual(["a", "b", "src"]);
  });
});

describe("diffs", () => {
  it("a diff has the changed lines with three lines around them", () => {
    const lines = Array.from({ length: 20 }, (_, i) => String(i));
    const after = lines.with(4, "four").toSpliced(16, 0, "new");
    expect(diffOf("x", lines.join("\n"), after.join("\n"))).toEqual([
      "--- x",
      "+++ x",
      "@@ -2,7 +2,7 @@",
      " 1",
      " 2",
      " 3",
      "-4",
      "+four",
      " 5",
      " 6",
      " 7",
      "@@ -14,6 +14,7 @@",
      " 13",
      " 14",
      " 15",
      "+new",
      " 16",
      " 17",
      " 18",
    ]);
    expect(diffOf("x", null, "a\n")).toEqual(["--- /dev/null", "+++ x", "@@ -0,0 +1,1 @@", "+a"]);
  });
});
