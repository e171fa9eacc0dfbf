/**
 * Static assets under workerd: what the platform does for the `[assets]` of `wrangler.toml`, in a module
 * in front of the Worker. Pages are served without `.html` and without a slash at their end.
 *
 * Source: https://developers.cloudflare.com/workers/static-assets/, "HTML handling" (drop-trailing-slash)
 * and "Headers" (of which only prefixes are known here).
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join, relative, sep } from "node:path";
import { LINGERING_FILE } from "./lingering.ts";

/** Rules for headers, in the format of Cloudflare Pages; it is not served itself. */
const HEADERS_FILE = "_headers";
/** Content types by extension. An unknown file is sent as bytes, which a browser downloads. */
const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

/** A file to serve. */
export interface Asset {
  /** Absolute path on disk. */
  readonly file: string;
  /** Path in URLs, such as `/dashboard`. */
  readonly path: string;
  /** Other paths of a page, which redirect to that one. */
  readonly detours: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

/** Headers for one path, or for all paths below a prefix. */
interface HeaderRule {
  readonly prefix: string;
  readonly isExact: boolean;
  readonly headers: Readonly<Record<string, string>>;
}

/** The assets in a folder; an empty list when the folder is missing, as in a checkout that was not built. */
export function assetsIn(folder: string): Asset[] {
  if (!existsSync(folder)) return [];
  const rules = headerRulesIn(join(folder, HEADERS_FILE));
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => relative(folder, file) !== HEADERS_FILE)
    .toSorted()
    .map((file) => assetOf(file, `/${relative(folder, file).split(sep).join("/")}`, rules));
}

/**
 * An asset with its headers. The hash of its bytes is its ETag, so a new release is fetched and an
 * old one is not.
 */
function assetOf(file: string, filePath: string, rules: readonly HeaderRule[]): Asset {
  const { path, detours } = pathsOf(filePath);
  const digest = createHash("sha256").update(readFileSync(file)).digest("base64url");
  const own = {
    "content-type": TYPES[extname(file)] ?? "application/octet-stream",
    "cache-control": "public, max-age=0, must-revalidate",
    etag: `"${digest}"`,
  };
  const ruled = rules
    .filter(({ prefix, isExact }) => (isExact ? path === prefix : path.startsWith(prefix)))
    .map(({ headers }) => headers);
  return { file, path, detours, headers: Object.assign({}, own, ...ruled) };
}

/** The path of a file in URLs, and the paths that lead to it. Only pages have detours. */
function pathsOf(filePath: string): Pick<Asset, "path" | "detours"> {
  if (!filePath.endsWith(".html")) return { path: filePath, detours: [] };
  const name = filePath.slice(0, -".html".length);
  if (!name.endsWith("/index")) return { path: name, detours: [filePath, `${name}/`] };
  const folder = name.slice(0, -"/index".length);
  return folder === ""
    ? { path: "/", detours: [filePath, name] }
    : { path: folder, detours: [filePath, name, `${folder}/`] };
}

/** A path, then its headers, one a line and indented. */
function headerRulesIn(file: string): HeaderRule[] {
  if (!existsSync(file)) return [];
  const rules: { prefix: string; isExact: boolean; headers: Record<string, string> }[] = [];
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [, name, value] = /^\s+([^:\s]+):\s*(.*?)\s*$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined)
      rules.at(-1)!.headers[name.toLowerCase()] = value;
    else if (line.startsWith("/")) {
      const path = line.trim();
      rules.push({ prefix: path.replace(/\*$/, ""), isExact: !path.endsWith("*"), headers: {} });
    }
  }
  return rules;
}

/** Name of the module that has the bytes of an asset. */
export const assetModuleName = (index: number): string => `assets/${index}`;

/** The entrypoint for TCP sockets. */
export const TCP_ENTRYPOINT = "tcp";

/**
 * Source of the module in front of the Worker: it answers requests for assets, and passes all others on.
 *
 * workerd hands a CONNECT request over HTTP to the handler `connect`, with the port that the client names. Such
 * a client would enter the doors of TCP ports that it can't reach, so only TCP sockets have that handler.
 *
 * @param workerFile the Worker's module, beside this one
 */
export function frontModule(assets: readonly Asset[], workerFile: string): string {
  const json = JSON.stringify;
  return `
import server from ${json(`./${workerFile}`)};
import { linger } from ${json(`./${LINGERING_FILE}`)};
${assets.map((_asset, i) => `import body${i} from ${json(`./${assetModuleName(i)}`)};`).join("\n")}
export * from ${json(`./${workerFile}`)};

const assets = new Map([
${assets.map(({ path, headers }, i) => `  [${json(path)}, { body: body${i}, headers: ${json(headers)} }],`).join("\n")}
]);
const detours = new Map(${json(assets.flatMap(({ path, detours }) => detours.map((detour) => [detour, path])))});

function assetOf(request) {
  if (request.method !== "GET" && request.method !== "HEAD") return null;
  if (!URL.canParse(request.url)) return null;
  const { pathname, search } = new URL(request.url);
  const location = detours.get(pathname);
  if (location !== undefined) {
    return new Response(null, { status: 307, headers: { location: location + search } });
  }
  const asset = assets.get(pathname);
  if (asset === undefined) return null;
  const { body, headers } = asset;
  const known = (request.headers.get("if-none-match") ?? "").split(",").map((tag) => tag.trim());
  const isKnown = known.some((tag) => tag.replace(/^W\\//, "") === headers.etag);
  if (isKnown) return new Response(null, { status: 304, headers });
  return new Response(request.method === "HEAD" ? null : body, { headers });
}

// workerd keeps a WebSocket for good whose client has reset its connection before the answer, and with it a place in its Hub,
// unless it learns of the reset in time. It looks between two turns of its loop: so there is one before the answer.
async function answer(request, env, ctx) {
  const response = await server.fetch(request, env, ctx);
  if (response.webSocket !== null) await scheduler.wait(0);
  return await linger(request, response, ctx);
}

export default {
  fetch: async (request, env, ctx) => assetOf(request) ?? (await answer(request, env, ctx)),
};
export const ${TCP_ENTRYPOINT} = {
  connect: (socket, env, ctx) => server.connect(socket, env, ctx),
};
`;
}
