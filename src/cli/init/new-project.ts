/** A new project: a Worker that grants each caller ten requests a minute, with Throttr and its dashboard inside it. */
import { readFileSync } from "node:fs";
import { basename, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { VERSION } from "../../base/version.ts";
import { COMPATIBILITY_DATE } from "../serve/configuration.ts";
import { UsageError } from "../failure.ts";
import { projectText } from "../files.ts";
import { toolsFor } from "../tools.ts";
import { CLASSES, prefixed } from "./additions.ts";
import { exportLines } from "./main-file.ts";
import { readConfig, textWith } from "./config-file.ts";
import { isObject, type Addition, type ConfigObject } from "./json.ts";
import type { FileChange } from "./write-files.ts";

/** Beside what the tools write: the files that docs/self-hosting.md and docs/gateway.md create in the folder of the package. */
const IGNORES = `node_modules/
.wrangler/
.dev.vars*
throttr-data/
token-secret
gateway-token
`;

/** The port of `npm run dev`. */
export const DEV_PORT = 8787;

/** Local runs need no token, for any namespace, from pages of this machine only. */
export const OPEN =
  "--var THROTTR_ACCESS:open --var THROTTR_OPEN_NAMESPACES:any --var THROTTR_HOSTS:localhost";

/**
 * The files of a new project in a folder. A package.json that is there keeps what it has.
 *
 * @param prefix of the names of Throttr's classes
 * @param nodeVersion of the machine: an old one gets a newer Node as a dependency, as wrangler needs it
 * @throws UsageError `file_exists` when another of the files is there, `file_unreadable`
 */
export function newProject(
  folder: string,
  prefix = "",
  nodeVersion = process.versions.node,
): FileChange[] {
  const name = workerNameOf(folder);
  const files = {
    "wrangler.jsonc": wranglerJsonc(name, prefix),
    "src/index.ts": indexTs(name, prefix),
    "tsconfig.json": TSCONFIG,
  };
  const changes = Object.entries(files).map(([file, after]) => {
    const path = join(folder, file);
    if (projectText(path) === null) return { path, before: null, after };
    throw new UsageError(
      "file_exists",
      `${path} is there, but ${folder} has no wrangler configuration: name another folder for a new project, \`throttr-edge init my-app\``,
    );
  });
  return [manifestIn(folder, name, nodeVersion), ...changes, ...ignoresIn(folder)];
}

/** The name of the Worker: that of the folder, as far as wrangler accepts it. */
function workerNameOf(folder: string): string {
  const name = basename(resolve(folder))
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 54);
  return name === "" ? "my-app" : name;
}

function manifestIn(folder: string, name: string, nodeVersion: string): FileChange {
  const path = join(folder, "package.json");
  const wanted = {
    scripts: {
      dev: `wrangler dev ${OPEN}`,
      check: "tsc",
      deploy: "wrangler deploy",
    },
    dependencies: { "throttr-edge": packageSpec(folder) },
    devDependencies: toolsFor(nodeVersion),
    // Newer releases of npm ask before a package may run its script of installation.
    allowScripts: { esbuild: true, workerd: true, node: true },
  };
  const before = projectText(path);
  if (before === null) {
    const manifest = { name, private: true, type: "module", ...wanted };
    return { path, before, after: `${JSON.stringify(manifest, null, 2)}\n` };
  }
  const file = readConfig(path);
  return { path, before, after: textWith(file, missingEntries(file.config, wanted)) };
}

/** The entries that a manifest lacks. */
function missingEntries(
  manifest: ConfigObject,
  wanted: Readonly<Record<string, Readonly<Record<string, string | boolean>>>>,
): Addition[] {
  const known = Object.values(manifest).filter(isObject);
  return Object.entries(wanted).flatMap(([section, entries]) => {
    const own = manifest[section];
    const missing = Object.entries(entries).filter(([name]) =>
      section === "scripts" || section === "allowScripts"
        ? !(isObject(own) && Object.hasOwn(own, name))
        : !known.some((some) => Object.hasOwn(some, name)),
    );
    return missing.length === 0 ? [] : [{ path: [section], value: Object.fromEntries(missing) }];
  });
}

function ignoresIn(folder: string): FileChange[] {
  const path = join(folder, ".gitignore");
  return projectText(path) === null ? [{ path, before: null, after: IGNORES }] : [];
}

/**
 * What a project depends on to have this package: its version, or the packed file that npm has installed it from,
 * which may be of a version that no registry has.
 */
function packageSpec(folder: string): string {
  const self = fileURLToPath(import.meta.url);
  const modules = self.lastIndexOf(`${sep}node_modules${sep}`);
  if (modules < 0) return VERSION;
  const project = self.slice(0, modules);
  const file = packedFile(join(project, "node_modules/.package-lock.json"));
  if (file === null) return VERSION;
  return `file:${relative(resolve(folder), resolve(project, file)).split(sep).join("/")}`;
}

/** The file that a package was installed from, as npm has written it down. */
function packedFile(lockPath: string): string | null {
  try {
    const lock = JSON.parse(readFileSync(lockPath, "utf8")) as {
      packages: Record<string, { resolved?: string }>;
    };
    const resolved = lock.packages["node_modules/throttr-edge"]?.resolved ?? "";
    return /^file:(.*)$/.exec(resolved)?.[1] ?? null;
  } catch {
    // Another package manager has installed it.
    return null;
  }
}

const wranglerJsonc = (name: string, prefix: string): string => `{
  "$schema": "node_modules/wrangler/config-schema.json",
  "name": "${name}",
  "main": "src/index.ts",
  "compatibility_date": "${COMPATIBILITY_DATE}",
  // Compressed WebSocket messages could take 1,000 times their size in memory.
  "compatibility_flags": ["no_web_socket_compression"],
  "observability": { "enabled": true },
  "dev": { "port": ${DEV_PORT} },
  // The objects that keep Throttr's data.
  "exports": {
${declarations(prefix)}
  }
}
`;

const declarations = (prefix: string): string =>
  CLASSES.map(
    (name) => `    "${prefix}${name}": { "type": "durable-object", "storage": "sqlite" }`,
  ).join(",\n");

const indexTs = (
  name: string,
  prefix: string,
): string => `/** A Worker that grants each caller ten requests a minute, with Throttr inside it. */
import { dashboard } from "throttr-edge/dashboard";
import { guard } from "throttr-edge/fetch";
import { fixedWindow, RateLimiter } from "throttr-edge/ratelimit";
${prefix === "" ? 'import { routeThrottr, throttr } from "throttr-edge/worker";\n' : ""}
// The objects that keep the counts: see "exports" in wrangler.jsonc.
${exportLines(prefixed(prefix))}
const limiter = new RateLimiter({
  throttr: throttr({ namespace: "${name}" }),
  name: "api",
  strategy: fixedWindow({ limit: 10, window: "1 m" }),
});

export default {
  async fetch(request: Request, env: unknown, ctx: ExecutionContext): Promise<Response> {
    // The dashboard and the HTTP API, below /throttr-edge.
    const answer = await routeThrottr(request, env, ctx, { dashboard });
    if (answer !== null) return answer;
    // Browsers ask for an icon, too: only the page is limited.
    if (new URL(request.url).pathname !== "/") return new Response(null, { status: 404 });
    const caller = request.headers.get("cf-connecting-ip") ?? "local";
    const { response, addTo } = await guard(request, { limiter, key: caller });
    return response ?? addTo(new Response("hello\\n"));
  },
};
`;

const TSCONFIG = `{
  "compilerOptions": {
    "target": "es2024",
    "lib": ["es2024"],
    "module": "esnext",
    "moduleResolution": "bundler",
    "types": ["@cloudflare/workers-types"],
    "strict": true,
    "noEmit": true,
    "skipLibCheck": true
  },
  "include": ["src"]
}
`;
