/** Routes in JSON that the command line asks: what it makes of answers that say little, or are not the server's. */
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { runCli } from "../support/cli/run.ts";

const server = createServer();

afterEach(async () => {
  server.removeAllListeners("request").closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** Runs a command against a server that answers as a listener does. */
async function run(line: string, listener: RequestListener) {
  server.on("request", listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, ...(await runCli([...line.split(" "), "--url", url], {})) };
}

describe("a route in JSON", () => {
  it("an answer that is cut off is a lost connection, with exit code 4", async () => {
    const { url, exitCode, err } = await run("info", (_request, response) => {
      response.writeHead(200, { "content-length": 1000 }).write('{"requests":', () => {
        response.destroy();
      });
    });
    expect(err).toMatch(/^throttr-edge: connection_failed: the answer of \S+ was cut off/);
    expect(err).toContain(url);
    expect(exitCode).toBe(4);
  });

  it("the error page of a proxy appears once in the message", async () => {
    const { exitCode, err } = await run("shards", (_request, response) => {
      response.writeHead(502).end("<html>502 Bad Gateway</html>");
    });
    expect(err).toMatch(/^throttr-edge: connection_failed: .*HTTP 502/);
    expect(err.match(/Bad Gateway/g)).toHaveLength(1);
    expect(exitCode).toBe(4);
  });
});

describe("clock", () => {
  const overview = {
    namespace: "default",
    shards: [
      { index: 0, shard: "0", clockLagMs: 0 },
      { index: 1, shard: "b9000000", clockLagMs: 7 },
    ],
  };
  const setBack = [
    { index: 0, setBackMs: 0 },
    { index: 1, setBackMs: 7 },
  ];
  const answering =
    (shards: readonly object[]): RequestListener =>
    ({ url }, response) =>
      response.end(JSON.stringify(url === "/v1/overview" ? overview : { shards }));

  it("shards have the names that `shards` shows", async () => {
    const shown = await run("clock", answering(setBack));
    expect(shown.out).toMatch(/^shard +ahead by\n0 +0 ms\nb9000000 +7 ms\n$/);
  });

  it("shards that are set back have them, too", async () => {
    const { out } = await run("clock --reset", answering(setBack));
    expect(out).toMatch(/^shard +set back by\n0 +0 ms\nb9000000 +7 ms\n$/);
  });

  it("after a split in between no shard is called by another one's name", async () => {
    const { out } = await run("clock --reset", answering([...setBack, { index: 2, setBackMs: 0 }]));
    expect(out).toMatch(/^shard +set back by\n- +0 ms\n- +7 ms\n- +0 ms\n$/);
  });
});
