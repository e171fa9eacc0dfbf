/**
 * The examples, copied out as projects of their own with the packed package, and the first program of the README.
 *
 * No registry is needed: npm installs the package from its file, and what else a copy depends on is linked to what is
 * installed here.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newProject } from "../../src/cli/init/new-project.ts";
import { startAlone, startBeside, type WorkerBeside } from "../support/process/worker-beside.ts";

interface PackageJson {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

const readPackageJson = (path: string): PackageJson =>
  JSON.parse(readFileSync(path, "utf8")) as PackageJson;

const { version, devDependencies: installed } = readPackageJson("package.json");
/** Where the copies are, with the packed package beside them. */
const projects = mkdtempSync(join(tmpdir(), "throttr-examples-"));

let worker: WorkerBeside | undefined;

beforeAll(() => {
  execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", projects], {
    stdio: "pipe",
  });
});

afterEach(async () => {
  await worker?.close();
  worker = undefined;
});

afterAll(() => rmSync(projects, { recursive: true, force: true }));

/** Copies an example out, installs what it depends on, checks its types and starts it. */
async function startCopy(example: string, port: number): Promise<string> {
  const copy = join(projects, example);
  cpSync(`examples/${example}`, copy, { recursive: true });
  const manifest = join(copy, "package.json");
  const { dependencies, devDependencies, ...rest } = readPackageJson(manifest);
  const { "throttr-edge": packed, ...others } = { ...dependencies, ...devDependencies };
  expect(packed).toBe(`file:../throttr-edge-${version}.tgz`);
  expect(installed).toMatchObject(others);
  writeFileSync(manifest, JSON.stringify({ ...rest, dependencies: { "throttr-edge": packed } }));
  execFileSync("npm", ["install", "--offline", "--no-audit"], { cwd: copy, stdio: "pipe" });
  for (const name of Object.keys(others)) {
    const link = join(copy, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(resolve("node_modules", name), link);
  }
  const compiler = resolve("node_modules/.bin/tsc");
  expect(() => execFileSync(compiler, ["-p", copy], { stdio: "pipe" })).not.toThrow();
  const isInside = existsSync(join(copy, "wrangler.jsonc"));
  worker = isInside
    ? await startAlone(join(copy, "wrangler.jsonc"), port)
    : await startBeside(join(copy, "wrangler.toml"), port);
  return worker.url;
}

const text = async (url: string, init?: RequestInit): Promise<string> =>
  await (await fetch(url, init)).text();

describe("the first lines of the README", () => {
  it("the first program of the README is what init creates, and grants ten requests a minute", async () => {
    const readme = readFileSync("README.md", "utf8");
    const [, code = ""] = /```ts\n(.*?)```/s.exec(readme)!;
    const folder = resolve(".wrangler/readme/my-app");
    rmSync(folder, { recursive: true, force: true });
    for (const { path, after } of newProject(folder)) {
      // Without a package.json the folder is a part of this package, and finds it by its name.
      if (path.endsWith("package.json")) continue;
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, after);
    }
    expect(code).toBe(readFileSync(join(folder, "src/index.ts"), "utf8"));
    worker = await startAlone(join(folder, "wrangler.jsonc"), 18_811);
    const { url } = worker;
    const statuses: number[] = [];
    let last: Response | undefined;
    for (let i = 0; i < 11; i++) {
      last = await fetch(url);
      await last.clone().text();
      statuses.push(last.status);
    }
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
    expect(Number(last!.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  });
});

describe("examples", () => {
  it("the example hono-api answers 429 with the headers of the draft", async () => {
    const url = await startCopy("hono-api", 18_812);
    const first = await fetch(`${url}/api/time`);
    expect(first.status).toBe(200);
    expect(await first.json()).toMatchObject({ now: expect.stringMatching(/^\d{4}-/) as unknown });
    expect(first.headers.get("ratelimit-policy")).toMatch(/^"\w+";q=5;w=5$/);
    expect(first.headers.get("ratelimit")).toMatch(/^"\w+";r=4;t=\d+$/);
    let refused = first;
    for (let i = 0; i < 10 && refused.status === 200; i++) {
      refused = await fetch(`${url}/api/time`);
      if (refused.status === 200) await refused.text();
    }
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(refused.headers.get("content-type")).toBe("application/problem+json");
    expect(await refused.json()).toMatchObject({ status: 429 });
    expect(await text(`${url}/login`, { method: "POST" })).toBe("welcome");
  });

  it.each([
    ["embedded", "/", 18_815],
    ["embedded-hono", "/api/time", 18_816],
  ])(
    "the example %s answers 429, and its dashboard reads what it has counted",
    async (example, path, port) => {
      const url = await startCopy(example, port);
      const responses = await Promise.all(Array.from({ length: 10 }, () => fetch(url + path)));
      const refused = responses.find(({ status }) => status === 429)!;
      expect(refused.headers.get("ratelimit-policy")).toMatch(/^"\w+";q=5;w=5$/);
      expect(await text(`${url}/throttr-edge/dashboard`)).toContain("<title>");
      const list = await text(`${url}/throttr-edge/v1/records`, {
        headers: { authorization: `Bearer namespace.${example}` },
      });
      expect(list).toContain('"key":');
    },
  );

  it("the example live-page shows each visit to a page that is open", async () => {
    const url = await startCopy("live-page", 18_813);
    expect(await text(url)).toContain("<output>1</output>");
    const events = await fetch(`${url}/events`);
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    const read = async (until: string): Promise<void> => {
      while (!seen.includes(until)) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`the stream ended after ${seen}`);
        seen += value;
      }
    };
    await read("retry:");
    await read("id: ");
    expect(await text(url)).toContain("<output>2</output>");
    await read("data: 2\n");
    await reader.cancel();
  });

  it("the example service-binding caches, locks, counts an order once and keeps to a quota", async () => {
    const url = await startCopy("service-binding", 18_814);
    const report = await text(`${url}/cached`);
    expect(report).toMatch(/^made at/);
    expect(await text(`${url}/cached`)).toBe(report);
    expect(await text(`${url}/nightly`)).toBe("begun");
    expect(await text(`${url}/nightly`)).toBe("runs already");
    expect(await text(`${url}/order?id=1`)).toBe('{"orders":"1"}');
    expect(await text(`${url}/order?id=1`)).toBe('{"orders":"1"}');
    expect(await text(`${url}/order?id=2`)).toBe('{"orders":"2"}');
    const answers: string[] = [];
    for (let i = 0; i < 4; i++) answers.push(await text(`${url}/quota?user=ada`));
    expect(answers).toEqual([
      '{"allowed":true,"left":"2"}',
      '{"allowed":true,"left":"1"}',
      '{"allowed":true,"left":"0"}',
      '{"allowed":false,"left":"0"}',
    ]);
  });
});
