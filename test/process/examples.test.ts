/** The examples, and the first lines of code of the README, run as they are. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { startBeside, type WorkerBeside } from "../support/process/worker-beside.ts";

let worker: WorkerBeside | undefined;

afterEach(async () => {
  await worker?.close();
  worker = undefined;
});

async function start(config: string, port: number): Promise<string> {
  worker = await startBeside(config, port);
  return worker.url;
}

const text = async (url: string, init?: RequestInit): Promise<string> =>
  await (await fetch(url, init)).text();

describe("the first lines of the README", () => {
  it("are an edge function that limits", async () => {
    const readme = readFileSync("README.md", "utf8");
    const [, code = ""] = /```ts\n(.*?)```/s.exec(readme)!;
    const [, config = ""] = /```toml\n(.*?)```/s.exec(readme)!;
    expect(readme.indexOf("```")).toBe(readme.indexOf("```ts"));
    const folder = resolve(".wrangler/readme");
    mkdirSync(`${folder}/src`, { recursive: true });
    writeFileSync(`${folder}/src/index.ts`, code);
    writeFileSync(`${folder}/wrangler.toml`, config);
    const url = await start(`${folder}/wrangler.toml`, 18_811);
    const statuses: number[] = [];
    let last: Response | undefined;
    // The first of the ten went to whoever asked whether it is ready.
    for (let i = 0; i < 10; i++) {
      last = await fetch(url);
      await last.clone().text();
      statuses.push(last.status);
    }
    expect(statuses).toEqual([...Array.from({ length: 9 }, () => 200), 429]);
    expect(Number(last!.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  });
});

describe("examples", () => {
  it("hono-api answers 429 with the headers of the draft", async () => {
    const url = await start("examples/hono-api/wrangler.toml", 18_812);
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

  it("live-page shows visits while they happen", async () => {
    const url = await start("examples/live-page/wrangler.toml", 18_813);
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

  it("service-binding caches, locks, counts once and keeps to a quota", async () => {
    const url = await start("examples/service-binding/wrangler.toml", 18_814);
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
