/** `throttr-edge serve`: what flags ask for, the configuration of workerd, the folder of the data. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, inject, it, vi } from "vitest";
import { textUpTo } from "../../src/cli/files.ts";
import { addressOf, addressText, isLoopback, reachableUrl } from "../../src/cli/serve/address.ts";
import { assetsIn } from "../../src/cli/serve/assets.ts";
import { capnpText } from "../../src/cli/serve/capnp-text.ts";
import {
  COMPATIBILITY_DATE,
  COMPATIBILITY_FLAGS,
  configurationText,
  UNIQUE_KEYS,
  type Serving,
} from "../../src/cli/serve/configuration.ts";
import { askServer } from "../../src/cli/serve/claim.ts";
import { DataFolder, keepReserve } from "../../src/cli/serve/data-folder.ts";
import { health } from "../../src/cli/serve/health.ts";
import { processStart } from "../../src/cli/serve/orphans.ts";
import { planOf, type ServeFlags } from "../../src/cli/serve/plan.ts";
import { sqlite } from "../../src/cli/serve/sqlite.ts";
import { findWorkerd } from "../../src/cli/serve/workerd.ts";
import { runCli } from "../support/cli/run.ts";
import { textArbitrary } from "../support/text/strings.ts";

const seed = inject("seed");
const toml = readFileSync("wrangler.toml", "utf8");

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-serve-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Flags as commander gives them when none is written. */
const flagsOf = (flags: Partial<ServeFlags> = {}): ServeFlags => ({
  http: ["127.0.0.1:8787"],
  tcp: [],
  tcpHost: "127.0.0.1",
  openToNetwork: false,
  access: "token",
  var: [],
  data: "./throttr-data",
  behindProxy: false,
  ...flags,
});
const SECRET = "x".repeat(32);
const plan = (flags: Partial<ServeFlags> = {}, environment: object = { TOKEN_SECRET: SECRET }) =>
  planOf(flagsOf(flags), environment as Record<string, string>, null);

/** Runs something that fails; gives `code: message`. */
async function failure(run: () => unknown): Promise<string> {
  try {
    await run();
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    return `${code}: ${message}`;
  }
  return "it did not fail";
}

describe("addresses", () => {
  it.each([
    ["127.0.0.1:8787", "127.0.0.1", 8787, true],
    ["localhost:80", "127.0.0.1", 80, true],
    ["127.9.9.9:1", "127.9.9.9", 1, true],
    ["0.0.0.0:8787", "0.0.0.0", 8787, false],
    ["10.0.0.1:65535", "10.0.0.1", 65_535, false],
    ["[::1]:0", "::1", 0, true],
    ["[::]:8787", "::", 8787, false],
    ["[fe80::1]:8787", "fe80::1", 8787, false],
  ])("the listen address %s is read", (text, host, port, isOnLoopback) => {
    expect(addressOf(text)).toEqual({ host, port });
    expect(isLoopback(host)).toBe(isOnLoopback);
    expect(addressOf(addressText({ host, port }))).toEqual({ host, port });
  });

  it.each([
    "8787",
    ":8787",
    "127.0.0.1",
    "127.0.0.1:65536",
    "::1:80",
    "example.com:80",
    "*:80",
    "",
  ])("the listen address %s is refused", (text) => {
    expect(addressOf(text)).toBeNull();
  });

  it("a server on all interfaces is reached on loopback", () => {
    expect(reachableUrl({ host: "0.0.0.0", port: 1 })).toBe("http://127.0.0.1:1");
    expect(reachableUrl({ host: "::", port: 1 })).toBe("http://[::1]:1");
    expect(reachableUrl({ host: "10.0.0.1", port: 1 })).toBe("http://10.0.0.1:1");
  });
});

describe("flags", () => {
  it("a server without flags serves HTTP on loopback, with tokens, and no TCP", () => {
    expect(plan()).toMatchObject({
      http: [{ host: "127.0.0.1", port: 8787 }],
      tcp: [],
      variables: { ACCESS: "token", TCP_PORTS: "" },
      secrets: { TOKEN_SECRET: SECRET },
      dataFolder: join(process.cwd(), "throttr-data"),
      warnings: [],
    });
  });

  it("open access on loopback is bound to loopback host names", () => {
    const hostsOf = (flags: Parameters<typeof plan>[0]): string | undefined =>
      plan(flags).variables["HOSTS"];
    expect(hostsOf({ access: "open" })).toBe("localhost");
    expect(hostsOf({ access: "open", http: ["127.0.0.1:1", "[::1]:1"] })).toBe("localhost");
    expect(hostsOf({ access: "open", var: ["HOSTS=throttr.test"] })).toBe("throttr.test");
    expect(hostsOf({})).toBeUndefined();
    expect(hostsOf({ access: "open", behindProxy: true })).toBeUndefined();
    const shown = { access: "open", http: ["0.0.0.0:1"], openToNetwork: true };
    expect(hostsOf(shown)).toBeUndefined();
  });

  it("secrets stay out of the variables, wherever they come from", () => {
    const file = join(folder, "secret");
    writeFileSync(file, `${"y".repeat(40)}\n`);
    const { variables, secrets } = plan(
      { tokenSecretFile: file, var: ["SHARDS=2"] },
      { TOKEN_SECRET: "of the environment", SHARD_SECRET: "s" },
    );
    expect(secrets).toEqual({ TOKEN_SECRET: "y".repeat(40), SHARD_SECRET: "s" });
    expect(variables).toEqual({
      SHARDS: "2",
      ACCESS: "token",
      TCP_PORTS: "",
      SPLIT_CALLS_PER_SECOND: "0",
    });
  });

  it("a secret is read no further than the longest one, with the end of its line", async () => {
    const file = join(folder, "secret");
    const longest = "ä".repeat(2048);
    writeFileSync(file, `${longest}\r\n`);
    expect(plan({ tokenSecretFile: file }).secrets.TOKEN_SECRET).toBe(longest);
    const expected = `secret_invalid: --token-secret-file: ${file}: expected 1 to 4096 bytes of text`;
    writeFileSync(file, `${longest}x\r\n`);
    expect(await failure(() => plan({ tokenSecretFile: file }))).toBe(expected);
    // Without a block on the disk, and too long for a string.
    truncateSync(file, 2 ** 33);
    expect(await failure(() => plan({ tokenSecretFile: file }))).toBe(expected);
  });

  it("a secret comes from a pipe, also one whose writer is late", () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const writes = "sleep 0.2; (printf first; sleep 0.2; printf second) > $0";
    spawn("sh", ["-c", writes, pipe], { stdio: "ignore" });
    expect(textUpTo(pipe, 100, 20_000)).toBe("firstsecond");
  });

  it("a pipe without a writer, or whose writer does not come to an end, does not hold the start for good", async () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const late = `undefined: ${pipe}: the pipe did not come to its end within 100 ms`;
    expect(await failure(() => textUpTo(pipe, 100, 100))).toBe(late);
    const writer = openSync(pipe, "r+");
    writeSync(writer, "a part");
    expect(await failure(() => textUpTo(pipe, 100, 100))).toBe(late);
    closeSync(writer);
  });

  it("an empty number leaves what serve computes, and an empty text is a value", () => {
    const given = [
      "SPLIT_CALLS_PER_SECOND=",
      "CONNECTIONS_MAX=",
      "YRMCDS_CONNECTIONS_MAX=",
      "HOSTS=",
    ];
    const flags = flagsOf({ access: "open", var: given });
    const { variables } = planOf(flags, {}, 10_000);
    expect(variables).toMatchObject({ SPLIT_CALLS_PER_SECOND: "0", HOSTS: "" });
    expect(Number(variables["CONNECTIONS_MAX"])).toBeGreaterThan(0);
    expect(variables).not.toHaveProperty("YRMCDS_CONNECTIONS_MAX");
  });

  it("a short secret is warned of", () => {
    expect(plan({}, { TOKEN_SECRET: "short" }).warnings).toEqual([
      "TOKEN_SECRET has 5 bytes: 32 or more are advised",
    ]);
  });

  it("a secret of bytes that are not text is warned of, wherever it is from", () => {
    const tokenSecretFile = join(folder, "secret");
    writeFileSync(
      tokenSecretFile,
      Uint8Array.from({ length: 48 }, (_, i) => 150 + i),
    );
    const garbled = (name: string): unknown =>
      expect.stringContaining(`${name} has bytes that are not text in UTF-8`);
    expect(plan({ tokenSecretFile }).warnings).toEqual([garbled("TOKEN_SECRET")]);
    const environment = { TOKEN_SECRET: SECRET, SHARD_SECRET: "\uFFFD" };
    expect(plan({}, environment).warnings).toEqual([garbled("SHARD_SECRET")]);
  });

  it("a secret with a line break around it is warned of; the one at the end of a file is no part of it", () => {
    const spaced = [expect.stringContaining("TOKEN_SECRET has white space or a line break around")];
    expect(plan({}, { TOKEN_SECRET: `${SECRET}\n` }).warnings).toEqual(spaced);
    const tokenSecretFile = join(folder, "secret");
    writeFileSync(tokenSecretFile, `${SECRET}\n\n`);
    expect(plan({ tokenSecretFile }).warnings).toEqual(spaced);
    writeFileSync(tokenSecretFile, `${SECRET}\n`);
    expect(plan({ tokenSecretFile }).warnings).toEqual([]);
  });

  it("a variable with its name of release 0.4 is warned of", () => {
    const { variables, warnings } = plan({
      tcp: ["9000=yrmcds@a"],
      var: ["COUNTER_ENABLE=on"],
    });
    expect(variables).toMatchObject({ COUNTER_ENABLE: "on" });
    expect(warnings).toEqual([
      "COUNTER_ENABLE is now called YRMCDS_ENABLE; the next release does not read COUNTER_ENABLE",
    ]);
  });

  it.each([
    ["token_secret_missing: TOKEN_SECRET is missing", {}, {}],
    ["token_secret_missing: ", {}, { TOKEN_SECRET: "" }],
    [
      "tcp_not_open: --tcp: TCP has no tokens: name the namespace that port 9000",
      { tcp: ["9000=7.3"] },
    ],
    ["tcp_not_open: ", { tcp: ["9000=7.3@a, 9001=2"] }],
    ["tcp_not_open: --tcp: 9000=yrmcds needs --var YRMCDS_ENABLE=on", { tcp: ["9000=yrmcds@a"] }],
    ["network_not_allowed: --tcp-host: ", { tcp: ["9000=7.3@a"], tcpHost: "0.0.0.0" }],
    ["network_not_allowed: --tcp-host: ", { tcp: ["9000=7.3"], tcpHost: "::", access: "open" }],
    ["network_not_allowed: --http: ", { http: ["127.0.0.1:1", "0.0.0.0:2"], access: "open" }],
    ["address_invalid: --http: expected an IP address and a port", { http: ["example.com:80"] }],
    [
      "address_invalid: --http: [::1]:1 is listed twice",
      { http: ["[::1]:1", "[0:0::1]:1", "[::1]:1"] },
    ],
    [
      "address_invalid: --http and --tcp: both name 127.0.0.1:9000",
      { http: ["127.0.0.1:1", "localhost:9000"], tcp: ["8999=2@a, 9000=2@a"] },
    ],
    ["address_invalid: --tcp-host: ", { tcpHost: "*" }],
    ["config_invalid: TCP_PORTS: 9000=9: ", { tcp: ["9000=9"] }],
    ["config_invalid: TCP_PORTS: 9000 is listed twice", { tcp: ["9000=2@a", "9000=7.3@b"] }],
    ["config_invalid: SHARDS: expected an integer from 1 to 128", { var: ["SHARDS=129"] }],
    ["config_invalid: DURABILITY: expected one of strict, relaxed", { var: ["DURABILITY=none"] }],
    ["variable_unknown: --var: unknown variable SHARD; the variables are ", { var: ["SHARD=1"] }],
    ["variable_unknown: ", { var: ["HUB=1"] }],
    ["variable_invalid: --var: expected NAME=value, got SHARDS", { var: ["SHARDS"] }],
    ["variable_invalid: --var: JURISDICTION is for Cloudflare", { var: ["JURISDICTION=eu"] }],
    ["variable_invalid: --var: ACCESS is set with --access", { var: ["ACCESS=open"] }],
    ["variable_invalid: --var: TCP_PORTS is set with --tcp", { var: ["TCP_PORTS=1=2"] }],
    [
      "variable_invalid: --var: other users could read TOKEN_SECRET on the command line",
      { var: ["TOKEN_SECRET=a"] },
    ],
    ["secret_invalid: --token-secret-file: ENOENT", { tokenSecretFile: "/nowhere/at/all" }],
    [
      "secret_invalid: --token-secret-file: /dev/null: expected 1 to 4096",
      { tokenSecretFile: "/dev/null" },
    ],
    ["sockets_max: ", { http: Array.from({ length: 65 }, (_, i) => `127.0.0.1:${i + 1}`) }],
  ] satisfies [string, Partial<ServeFlags>, object?][])(
    "flags are refused: %s %j",
    async (message, flags, environment: object = { TOKEN_SECRET: SECRET }) => {
      expect(await failure(() => plan(flags, environment))).toContain(message);
    },
  );

  it("flags that open a server to the network work when they are explicit", () => {
    expect(plan({ tcp: ["9000=7.3@a"], tcpHost: "0.0.0.0", openToNetwork: true }).tcpHost).toBe(
      "0.0.0.0",
    );
    expect(plan({ http: ["[::1]:9000"], tcp: ["9000=2@a"] }).tcp).toHaveLength(1);
    expect(plan({ http: ["0.0.0.0:1"] }).http).toEqual([{ host: "0.0.0.0", port: 1 }]);
    const open = { http: ["0.0.0.0:1"], access: "open", openToNetwork: true };
    expect(plan(open, {}).variables.ACCESS).toBe("open");
  });
});

describe("the health of a server", () => {
  it("a server that lists other host names is asked by one that it answers to", async () => {
    const server = createServer(({ headers }, response) => {
      response.statusCode = headers.host === "localhost" ? 200 : 421;
      response.end("here");
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await health(url, AbortSignal.timeout(5000))).toBeNull();
    server.removeAllListeners("request").on("request", (_, response: ServerResponse) => {
      response.writeHead(503).end("shards_mismatch");
    });
    expect(await health(url, AbortSignal.timeout(5000))).toBe("503 shards_mismatch");
    await new Promise((resolve) => server.close(resolve));
    expect(await health(url, AbortSignal.timeout(5000))).toContain("ECONNREFUSED");
  });

  it("a folder whose socket can't be reached has no healthy server", async () => {
    // Root may connect to any socket, so a link that leads nowhere stands for that of another user.
    const loop = join(folder, "loop");
    symlinkSync(loop, loop);
    const { exitCode, out } = await runCli(["serve", "--check", "--data", loop, "--json"], {});
    expect(exitCode).toBe(1);
    expect(JSON.parse(out)).toEqual({
      url: null,
      healthy: false,
      detail: `${join(loop, "socket")}: ELOOP`,
    });
  });

  it("an empty path is no folder, where it could be the current one", async () => {
    for (const flags of [["--access", "open"], ["--check"]]) {
      const { exitCode, err } = await runCli(["serve", ...flags, "--data", ""], {});
      expect(err).toContain("'--data <folder>' argument '' is invalid. Expected the path of a");
      expect(exitCode).toBe(2);
    }
  });
});

describe("Node", () => {
  it("an old Node is refused, with the way to a newer one", async () => {
    vi.doMock("node:sqlite", () => {
      throw new Error("No such built-in module: node:sqlite");
    });
    const message = await failure(sqlite);
    vi.doUnmock("node:sqlite");
    expect(message).toMatch(/^node_old: serve needs Node 22\.13 .*`npm install node@24`/);
  });
});

describe("the configuration", () => {
  const serving: Serving = {
    http: [{ host: "127.0.0.1", port: 8787 }],
    tcpHost: "::1",
    tcp: plan({ tcp: ["9000=7.3@a"] }).tcp,
    variables: { ACCESS: "token", SHARDS: '"4"' },
    secretNames: ["TOKEN_SECRET"],
    isBehindProxy: false,
    packageFolder: "/srv/package",
    objectsFolder: "/data/objects",
    assets: [],
  };

  it("the configuration has the date, flags and objects of wrangler.toml", () => {
    expect(toml).toContain(`\ncompatibility_date = "${COMPATIBILITY_DATE}"\n`);
    const flags = COMPATIBILITY_FLAGS.map((flag) => JSON.stringify(flag)).join(", ");
    expect(toml).toContain(`\ncompatibility_flags = [${flags}]\n`);
    const bound = [...toml.matchAll(/^name = "([A-Z]+)"\nclass_name = "(\w+)"$/gm)];
    expect(bound.map(([, name, className]) => [name, className])).toEqual(
      Object.keys(UNIQUE_KEYS).map((className) => [className.toUpperCase(), className]),
    );
  });

  it("the configuration keeps the unique keys of objects, without which all data is out of reach", () => {
    expect(UNIQUE_KEYS).toEqual({
      Shard: "throttr-edge-Shard",
      Hub: "throttr-edge-Hub",
      Channel: "throttr-edge-Channel",
      Directory: "throttr-edge-Directory",
    });
  });

  it("the configuration has variables as text, and secrets from the environment", () => {
    const text = configurationText(serving);
    expect(text).toContain('(name = "ACCESS", text = "token")');
    expect(text).toContain('(name = "SHARDS", text = "\\x224\\x22")');
    expect(text).toContain('(name = "TOKEN_SECRET", fromEnvironment = "TOKEN_SECRET")');
    expect(text).toContain('(name = "objects", disk = (path = "/data/objects", writable = true))');
    expect(text).toContain('name = "tcp [::1]:9000", address = "[::1]:9000", tcp = ()');
  });

  it("the configuration trusts proxy headers only behind a proxy", () => {
    const address = 'address = "127.0.0.1:8787", http = ';
    expect(configurationText(serving)).toContain(
      `${address}(injectRequestHeaders = [(name = "CF-Connecting-IP")])`,
    );
    expect(configurationText({ ...serving, isBehindProxy: true })).toContain(
      `${address}(forwardedProtoHeader = "X-Forwarded-Proto")`,
    );
  });

  it("the configuration quotes any text", () => {
    expect(capnpText('a"),\\\n\u0000ä')).toBe('"a\\x22),\\x5c\\x0a\\x00\\xc3\\xa4"');
    fc.assert(
      fc.property(textArbitrary(), (text) => {
        const quoted = capnpText(text);
        expect(quoted).toMatch(/^"(?:[ !#-[\]-~]|\\x[0-9a-f]{2})*"$/);
        const bytes = quoted
          .slice(1, -1)
          .match(/\\x..|./g)
          ?.map((part) => (part.length === 1 ? part.charCodeAt(0) : parseInt(part.slice(2), 16)));
        expect(Buffer.from(bytes ?? []).toString()).toBe(text);
      }),
      { seed },
    );
  });
});

describe("assets", () => {
  it("assets have the paths, types and headers that the platform gives them", () => {
    mkdirSync(join(folder, "panel/sub"), { recursive: true });
    writeFileSync(join(folder, "_headers"), "/panel*\n  X-One: 1\n/panel/a.js\n  X-Two: 2: 3\n");
    for (const name of ["panel/index.html", "panel/a.js", "panel/sub/b.html", "c.bin"]) {
      writeFileSync(join(folder, name), name);
    }
    const found = Object.fromEntries(assetsIn(folder).map((asset) => [asset.path, asset]));
    expect(Object.keys(found).toSorted()).toEqual([
      "/c.bin",
      "/panel",
      "/panel/a.js",
      "/panel/sub/b",
    ]);
    expect(found["/panel"]!.detours).toEqual(["/panel/index.html", "/panel/index", "/panel/"]);
    expect(found["/panel/sub/b"]!.detours).toEqual(["/panel/sub/b.html", "/panel/sub/b/"]);
    expect(found["/panel/a.js"]!.headers).toMatchObject({
      "content-type": "text/javascript; charset=utf-8",
      "x-one": "1",
      "x-two": "2: 3",
    });
    expect(found["/c.bin"]!.headers).not.toHaveProperty("x-one");
    expect(assetsIn(join(folder, "none"))).toEqual([]);
  });
});

describe("the data folder", () => {
  /** Opens a folder with no patience for a workerd that was left behind. */
  const open = async (path = folder): Promise<DataFolder> =>
    (await DataFolder.open(path, 0, new AbortController().signal))!;

  it("the data folder is readable by its owner alone, and its server says which one it is", async () => {
    const path = join(folder, "a/b");
    const data = await open(path);
    expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(await askServer(path)).toEqual({ pid: process.pid, workerdPid: null, url: null });
    data.describe({ workerdPid: 1, url: "http://127.0.0.1:1" });
    expect(await askServer(path)).toMatchObject({ workerdPid: 1, url: "http://127.0.0.1:1" });
    data.close();
    expect(await askServer(path)).toBeNull();
    (await open(path)).close();
  });

  it("the reserve is kept where it leaves as much space as it takes, and never fails a start", async () => {
    const path = join(folder, "reserve");
    const bytes = 4 << 20;
    const kept = (freeBytes: number): boolean => {
      keepReserve(path, freeBytes);
      expect(existsSync(`${path}.new`)).toBe(false);
      return existsSync(path);
    };
    expect(kept(2 * bytes)).toBe(true);
    expect(statSync(path).size).toBe(bytes);
    expect(kept(bytes)).toBe(true);
    expect(kept(bytes - 1)).toBe(false);
    // What the start before has freed is left to workerd by the next one, too.
    expect(kept(2 * bytes - 1)).toBe(false);
    // The draft of a start that was killed takes space.
    writeFileSync(`${path}.new`, "half");
    expect(kept(0)).toBe(false);
    // It can't be written, as where a quota is used up.
    expect(() => keepReserve(join(folder, "missing", "reserve"), 2 * bytes)).not.toThrow();
  });

  it("a data folder serves one server at a time, and a refused start names that server", async () => {
    const data = await open();
    expect(await failure(open)).toBe(
      `data_in_use: --data: ${folder} is in use by the server of process ${process.pid}`,
    );
    data.close();
    (await open()).close();
  });

  it("a damaged lock is named, and a start without it works", async () => {
    (await open()).close();
    const lock = join(folder, "lock");
    writeFileSync(lock, "not a database");
    expect(await failure(open)).toBe(
      `data_unusable: --data: ${folder}: ${lock}: file is not a database; it may be removed while no server runs`,
    );
    rmSync(lock);
    mkdirSync(lock);
    expect(await failure(open)).toBe(
      `data_unusable: --data: ${folder}: ${lock}: unable to open database file`,
    );
    rmSync(lock, { recursive: true });
    (await open()).close();
  });

  it("the data folder may have a path longer than that of a UNIX socket", async () => {
    const path = join(folder, "deep".repeat(30), "folder".repeat(30));
    const data = await open(path);
    expect(await askServer(path)).toMatchObject({ pid: process.pid });
    expect(await failure(() => open(path))).toContain(`process ${process.pid}`);
    data.close();
    (await open(path)).close();
  });

  it("a data folder is usable again after a power cut left its socket behind", async () => {
    (await open()).close();
    const listen = `require("net").createServer().listen(${JSON.stringify(join(folder, "socket"))}, () => process.kill(process.pid, "SIGKILL"))`;
    spawnSync(process.execPath, ["-e", listen]);
    expect(statSync(join(folder, "socket")).isSocket()).toBe(true);
    expect(await askServer(folder)).toBeNull();
    (await open()).close();
  });

  it("the data folder is written only where its configuration differs", async () => {
    const data = await open();
    const path = data.storeConfiguration("one");
    const { ino } = statSync(path);
    data.storeConfiguration("one");
    expect(statSync(path).ino).toBe(ino);
    data.storeConfiguration("two");
    expect(readFileSync(path, "utf8")).toBe("two");
    data.close();
  });

  it("a data folder is in use while the workerd of a killed server of release 0.4 runs", async () => {
    (await open()).close();
    const workerdStart = processStart(process.pid);
    const record = { pid: 1, workerdPid: process.pid, workerdStart, url: null };
    writeFileSync(join(folder, "server.json"), JSON.stringify(record));
    expect(await failure(() => open())).toContain(`is in use by workerd, process ${process.pid}`);
    // Another process has that id now.
    const other = { ...record, workerdStart: "0" };
    writeFileSync(join(folder, "server.json"), JSON.stringify(other));
    if (workerdStart !== null) (await open()).close();
    const { pid } = spawnSync("true");
    const ended = { ...record, workerdPid: pid, workerdStart: null };
    writeFileSync(join(folder, "server.json"), JSON.stringify(ended));
    (await open()).close();
  });

  it("a folder of another program, of wrangler, or of a newer release is refused", async () => {
    writeFileSync(join(folder, "notes.txt"), "");
    expect(await failure(() => open())).toContain(
      `data_foreign: --data: ${folder} has other files in it (notes.txt)`,
    );
    const ofWrangler = join(folder, ".wrangler/state");
    expect(await failure(() => open(ofWrangler))).toContain("data_foreign: ");
    const newer = join(folder, "newer");
    (await open(newer)).close();
    writeFileSync(join(newer, "throttr-edge.json"), '{"format":2}');
    expect(await failure(() => open(newer))).toContain("data_unknown: ");
    const file = join(folder, "notes.txt");
    expect(await failure(() => open(file))).toContain("data_unusable: ");
    // The root of a file system of its own.
    mkdirSync(join(folder, "volume/lost+found"), { recursive: true });
    (await open(join(folder, "volume"))).close();
  });
});

describe("workerd", () => {
  const program = (script: string): string => {
    const path = join(folder, "workerd");
    writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    return path;
  };

  it("workerd is that of the package, or the one that is named", () => {
    expect(findWorkerd(undefined)).toContain("workerd");
    const path = program("echo workerd 2099-01-01");
    expect(findWorkerd(path)).toBe(path);
  });

  it("workerd must exist, run, and be new enough", async () => {
    const found = (path: string): Promise<string> => failure(() => findWorkerd(path));
    expect(await found("/nowhere/workerd")).toBe(
      "workerd_missing: --workerd: there is no /nowhere/workerd",
    );
    expect(await found(program("echo workerd 2026-01-01"))).toContain("workerd_old: ");
    expect(await found(program("echo something"))).toContain("workerd_unusable: ");
    expect(await found(program("exit 3"))).toContain("workerd_unusable: ");
  });
});
