/** The small parts of the gateway: ports, addresses, options, tokens, logs and figures. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { readCertificate } from "../../src/cli/gateway/certificate.ts";
import { startGateway } from "../../src/cli/gateway/gateway.ts";
import { GatewayLog } from "../../src/cli/gateway/log.ts";
import { metricsText, PortMetrics } from "../../src/cli/gateway/metrics.ts";
import {
  doorUrl,
  isLoopback,
  limitsOf,
  LIMITS,
  upstreamUrl,
} from "../../src/cli/gateway/options.ts";
import { parsePorts, PORTS_UNLESS_GIVEN } from "../../src/cli/gateway/ports.ts";
import { givenToken, tokenOfFile } from "../../src/cli/gateway/token.ts";
import { runCli } from "../support/cli/run.ts";
import { parseExposition } from "../support/text/exposition.ts";

describe("ports", () => {
  it("the gateway opens the ports of the server's TCP_PORTS by default", () => {
    const ports = parsePorts(PORTS_UNLESS_GIVEN);
    expect(ports.map(({ port, path }) => [port, path])).toEqual([
      [9000, "/throttr/7.3/uint16"],
      [9001, "/throttr/7.3/uint8"],
      [9002, "/throttr/7.3/uint16"],
      [9004, "/throttr/7.3/uint32"],
      [9008, "/throttr/7.3/uint64"],
      [9020, "/throttr/2"],
      [11_215, "/yrmcds/counter"],
      [11_216, "/yrmcds/counter/today"],
    ]);
  });

  it("ports may have any dialect, and a default size for dialects without one", () => {
    const ports = parsePorts(" 1=7.1/uint8 ,2=5,65535=edge", "uint64");
    expect(ports.map(({ port, name }) => [port, name])).toEqual([
      [1, "7.1/uint8"],
      [2, "5/uint64"],
      [65_535, "edge"],
    ]);
  });

  it.each([
    "",
    "9000",
    "9000=",
    "=7.3",
    "x=7.3",
    "-1=7.3",
    "65536=7.3",
    "123456=7.3",
    ",",
    "1=7.3@orders",
    "01=7.3",
    "1=7.3/uint24",
    "1=7.3/uint8/uint8",
    "1=2/uint64",
    "1=edge/uint64",
    "1=yrmcds/tomorrow",
    "1=toString",
    "1=constructor/uint8",
    "1=2, 1=7.3",
    Array.from({ length: 65 }, (_, i) => `${i + 1}=2`).join(","),
  ])("the ports %j are refused", (text) => {
    expect(() => parsePorts(text)).toThrow(expect.objectContaining({ code: "ports_invalid" }));
  });

  it("an invalid default size is refused", () => {
    expect(() => parsePorts("1=2", "uint128")).toThrow("uint128");
  });
});

describe("the server's address", () => {
  it.each([
    ["https://host", "wss://host/throttr/2"],
    ["http://127.0.0.1:8787/", "ws://127.0.0.1:8787/throttr/2"],
    ["wss://host/a/b//", "wss://host/a/b/throttr/2"],
    ["ws://[::1]:1", "ws://[::1]:1/throttr/2"],
    ["https://host#x", "wss://host/throttr/2"],
  ])("the address %s has its door at %s", (url, door) => {
    expect(doorUrl(upstreamUrl(url), "/throttr/2").href).toBe(door);
  });

  it.each([
    "",
    "host",
    "ftp://host",
    "https://name:word@host",
    "https://host?ticket=x",
    "mailto:a",
  ])("the address %j is refused", (url) => {
    expect(() => upstreamUrl(url)).toThrow(expect.objectContaining({ code: "option_invalid" }));
  });

  it("loopback addresses are recognized", () => {
    expect(["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"].every(isLoopback)).toBe(true);
    expect(["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "host"].some(isLoopback)).toBe(false);
  });
});

describe("limits", () => {
  it("limits have defaults, and a value out of range is refused by name", () => {
    expect(limitsOf({})).toEqual(
      Object.fromEntries(
        Object.entries(LIMITS).map(([name, [unlessGiven]]) => [name, unlessGiven]),
      ),
    );
    for (const [name, [, min, max]] of Object.entries(LIMITS)) {
      expect(limitsOf({ [name]: max })).toMatchObject({ [name]: max });
      for (const value of [min - 1, max + 1, min + 0.5, NaN]) {
        expect(() => limitsOf({ [name]: value })).toThrow(
          `${name}: expected an integer from ${min} to ${max}, got ${value}`,
        );
      }
    }
  });
});

describe("tokens", () => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-token-"));
  const file = join(folder, "token");

  it("a token file is read again each time, without surrounding white space", async () => {
    const source = tokenOfFile(file);
    await expect(source()).rejects.toMatchObject({ code: "token_unreadable" });
    writeFileSync(file, " a.b.c\n");
    expect(await source()).toBe("a.b.c");
    writeFileSync(file, "d.e.f");
    expect(await source()).toBe("d.e.f");
    for (const bad of ["", " \n", "a b", "a\nb", "ä", "x".repeat(8193)]) {
      writeFileSync(file, bad);
      const error: unknown = await source().catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "token_unreadable" });
      // What is no token may still be a secret.
      if (bad.trim() !== "") expect(String(error)).not.toContain(bad.trim().slice(0, 100));
    }
    rmSync(folder, { recursive: true });
  });

  it("a token file that is a pipe without a writer is refused, and so is a certificate", async () => {
    const pipe = join(mkdtempSync(join(tmpdir(), "gateway-pipe-")), "pipe");
    execFileSync("mkfifo", [pipe]);
    await expect(tokenOfFile(pipe)()).rejects.toMatchObject({ code: "token_unreadable" });
    const files = { certificateFile: pipe, keyFile: pipe };
    await expect(readCertificate(files)).rejects.toMatchObject({ code: "tls_invalid" });
    rmSync(dirname(pipe), { recursive: true });
  });

  it("a given token is checked at the start", async () => {
    expect(await givenToken("a.b.c")()).toBe("a.b.c");
    expect(await givenToken(null)()).toBe(null);
    expect(() => givenToken("a\r\nb: c")).toThrow("visible ASCII");
  });
});

describe("a gateway that can't open all ports", () => {
  it("a gateway that fails to start leaves no client that has connected meanwhile", async () => {
    // Accepts each WebSocket's connection, and says nothing.
    const upstream = createServer();
    const taken = createServer();
    for (const server of [upstream, taken]) {
      await once(server.listen(0, "127.0.0.1"), "listening");
    }
    const portOf = (server: Server): number => (server.address() as AddressInfo).port;
    const [free] = parsePorts("0=2");
    let client: Socket | null = null;
    const ended = Promise.withResolvers<void>();
    const starting = startGateway({
      url: `http://127.0.0.1:${portOf(upstream)}`,
      // A name is looked up for each port: meanwhile the first one accepts.
      host: "localhost",
      connectTimeoutMs: 600_000,
      ports: [...Array.from({ length: 30 }, () => free!), ...parsePorts(`${portOf(taken)}=2`)],
      writeLog: (line) => {
        const { event, port } = JSON.parse(line) as { event: string; port: number };
        if (event !== "listening" || client !== null) return;
        client = connect({ port, host: "localhost" }).resume();
        client.on("error", () => {});
        client.once("close", () => ended.resolve());
      },
    });
    await expect(starting).rejects.toMatchObject({ code: "listen_failed" });
    await ended.promise;
    for (const server of [upstream, taken]) server.close();
  }, 20_000);

  it("the exit code of a start tells a port or address that may be free later from a host that is wrong", async () => {
    const taken = createServer();
    await once(taken.listen(0, "127.0.0.1"), "listening");
    const { port } = taken.address() as AddressInfo;
    const start = async (host: string): Promise<[number, string]> => {
      const args = ["gateway", "--url", "http://127.0.0.1:9", "--host", host, "--ports"];
      const { exitCode, err } = await runCli([...args, `${port}=2`, "--quiet"], {});
      return [exitCode, err];
    };
    const failed = (reason: string): unknown =>
      expect.stringMatching(
        new RegExp(`^throttr-edge: listen_failed: port ${port}: .*${reason}`, "m"),
      );
    expect(await start("127.0.0.1")).toEqual([1, failed("EADDRINUSE")]);
    // An address of no machine: RFC 5737.
    expect(await start("192.0.2.1")).toEqual([1, failed("EADDRNOTAVAIL")]);
    // The label of a name has at most 63 characters.
    expect(await start("x".repeat(64))).toEqual([2, failed("ENOTFOUND")]);
    taken.close();
  });

  it("a port for metrics that is also one for clients is a wrong option, and not a port that is taken", async () => {
    const url = ["--url", "http://127.0.0.1:9"];
    const ports = ["--ports", "21940=2, 21941=7.3", "--metrics-port", "21941"];
    const { exitCode, err } = await runCli(["gateway", ...url, ...ports, "--quiet"], {});
    expect(err).toContain("option_invalid: --ports and --metrics-port: both name 21941");
    expect(exitCode).toBe(2);
  });
});

describe("the log", () => {
  it("a repeated warning is logged at intervals that double to a minute, with its count", () => {
    const lines: string[] = [];
    let nowMs = 0;
    const log = new GatewayLog(
      (line) => lines.push(line),
      true,
      // The date may be set back at any moment: intervals don't depend on it.
      { dateMs: () => 3000 - (nowMs % 7), elapsedMs: () => nowMs },
    );
    const at: number[] = [];
    for (nowMs = 0; nowMs < 600_000; nowMs += 100) {
      const before = lines.length;
      log.repeated("lost", "", { port: 1 });
      if (lines.length > before) at.push(nowMs / 1000);
    }
    expect(at).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363, 423, 483, 543]);
    expect(JSON.parse(lines[2]!)).toEqual({
      time: "1970-01-01T00:00:02.996Z",
      level: "warning",
      event: "lost",
      port: 1,
      suppressed: 19,
    });
    nowMs = 800_000;
    log.repeated("lost", "", {});
    nowMs += 1000;
    log.repeated("lost", "", {});
    expect(lines).toHaveLength(at.length + 2);
  });

  it("the log tells warnings of different kinds apart, and keeps a bounded number of kinds", () => {
    const lines: string[] = [];
    const log = new GatewayLog((line) => lines.push(line), false, {
      dateMs: () => 0,
      elapsedMs: () => 0,
    });
    for (const kind of ["1008", "1013", "1008"]) log.repeated("closed", kind, {});
    expect(lines).toHaveLength(2);
    log.info("started");
    expect(lines).toHaveLength(3);
    new GatewayLog((line) => lines.push(line), true).info("started");
    expect(lines).toHaveLength(3);
  });
});

describe("the figures", () => {
  it("Prometheus can read the figures, and all series exist from the start", () => {
    const metrics = new PortMetrics(9002, "7.3/uint16");
    const figures = { isDraining: true, connectionsMax: 5, residentBytes: 6, startSeconds: 7 };
    const before = parseExposition(metricsText([metrics, new PortMetrics(1, "2")], figures));
    metrics.countClose(1013);
    metrics.countClose(4999);
    metrics.countClose(4998);
    metrics.failures.lost = 3;
    const after = parseExposition(metricsText([metrics, new PortMetrics(1, "2")], figures));
    const seriesOf = (metrics: typeof before): unknown[] =>
      [...metrics].map(([name, { samples }]) => [name, samples.map(({ labels }) => labels)]);
    expect(seriesOf(after)).toEqual(seriesOf(before));
    const valueOf = (name: string, labels: Record<string, string>): number | undefined =>
      after
        .get(`throttr_gateway_${name}`)!
        .samples.find((sample) =>
          Object.entries(labels).every(([name, value]) => sample.labels[name] === value),
        )?.value;
    expect(valueOf("upstream_closed_total", { port: "9002", code: "1013" })).toBe(1);
    expect(valueOf("upstream_closed_total", { port: "9002", code: "0" })).toBe(2);
    expect(valueOf("upstream_closed_total", { port: "1", code: "0" })).toBe(0);
    expect(valueOf("upstream_failures_total", { port: "9002", reason: "lost" })).toBe(3);
    expect(valueOf("draining", {})).toBe(1);
  });
});
