/** Routes in JSON that the command line asks, where something between it and the server fails. */
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
async function run(command: string, listener: RequestListener) {
  server.on("request", listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, ...(await runCli([command, "--url", url], {})) };
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

  it("an answer of a proxy whose server is gone is told once", async () => {
    const { exitCode, err } = await run("shards", (_request, response) => {
      response.writeHead(502).end("<html>502 Bad Gateway</html>");
    });
    expect(err).toMatch(/^throttr-edge: connection_failed: .*HTTP 502/);
    expect(err.match(/Bad Gateway/g)).toHaveLength(1);
    expect(exitCode).toBe(4);
  });
});
