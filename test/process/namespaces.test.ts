/** All namespaces of a deployment by the command line: their list, and a backup of all of them. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startThrottr, type TestServer } from "throttr-edge/testing";
import { cli, type Ended } from "../support/cli/process.ts";

const SECRET = "names-secret";
/** Names that are special in a file system are among them. */
const NAMES = ["..", ".hidden", "shop", "shop-staging"];

let from: TestServer;
let to: TestServer;
let folder: string;
let token: string;

async function run(
  server: TestServer,
  line: string,
  environment: Record<string, string> = {},
): Promise<Ended> {
  const given = { THROTTR_URL: server.url, THROTTR_TOKEN: token, XDG_CONFIG_HOME: folder };
  return await cli(line.split(" "), { environment: { ...given, ...environment } });
}

/** What a command prints, of one that succeeds. */
async function printed(server: TestServer, line: string): Promise<Record<string, unknown>[]> {
  const { exitCode, out, err } = await run(server, line);
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
  return out
    .split("\n")
    .filter(Boolean)
    .map((text) => JSON.parse(text) as Record<string, unknown>);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "throttr-names-"));
  const variables = { ACCESS: "token", TOKEN_SECRET: SECRET };
  [from, to] = await Promise.all([startThrottr({ variables }), startThrottr({ variables })]);
  const scopes = "read,write,admin";
  const made = await cli(["token", "--ns", "*", "--scopes", scopes, "--json"], {
    environment: { TOKEN_SECRET: SECRET },
  });
  token = (JSON.parse(made.out) as { token: string }).token;
  for (const [i, name] of NAMES.entries()) {
    const line = `insert visits --namespace ${name} --quota ${i} --ttl 1h`;
    const { exitCode, err } = await run(from, line);
    if (exitCode !== 0) throw new Error(err);
  }
});

afterAll(async () => {
  await Promise.all([from.close(), to.close()]);
  rmSync(folder, { recursive: true, force: true });
});

it("the namespaces of a deployment are listed by name", async () => {
  const rows = await printed(from, "namespaces --json");
  expect(rows).toEqual(NAMES.map((name) => ({ name, registeredAtMs: expect.any(Number) })));
  expect(await printed(from, "namespaces --limit 2 --json")).toEqual(rows.slice(0, 2));
  const table = await run(from, "namespaces");
  expect(table.out).toMatch(/^NAMESPACE +LISTED\n\.\. +\d{4}-/);
});

it("all namespaces are exported into a folder, and imported from it into the same namespaces", async () => {
  const files = NAMES.map((name) => `${name}.jsonl`);
  const backup = join(folder, "backup");
  const exported = await printed(from, `export --all-namespaces ${backup} --json`);
  expect(exported).toEqual(
    NAMES.map((namespace) => expect.objectContaining({ namespace, records: 1, counters: 1 })),
  );
  expect(readdirSync(backup).toSorted()).toEqual(files.toSorted());
  // Complete files are kept by an export that is resumed, and the missing one is written again.
  const kept = readFileSync(join(backup, "shop.jsonl"));
  rmSync(join(backup, "...jsonl"));
  const resumed = await printed(from, `export --all-namespaces ${backup} --resume --json`);
  expect(resumed.map((row) => row["resumed"])).toEqual([0, 1, 1, 1]);
  expect(readFileSync(join(backup, "shop.jsonl"))).toEqual(kept);
  expect(await run(from, `export --all-namespaces ${backup}`)).toMatchObject({ exitCode: 2 });

  const dry = await printed(to, `import --all-namespaces ${backup} --dry-run --json`);
  expect(dry.map((row) => row["records"])).toEqual([1, 1, 1, 1]);
  const imported = await printed(to, `import --all-namespaces ${backup} --json`);
  expect(imported).toEqual(
    NAMES.map((namespace) => expect.objectContaining({ namespace, restored: 1, failed: 0 })),
  );
  for (const [i, name] of NAMES.entries()) {
    const [row] = await printed(to, `query visits --namespace ${name} --json`);
    expect(row).toMatchObject({ quota: String(i) });
  }
  expect(readdirSync(backup).toSorted()).toEqual(files.toSorted());
});

it("a token of one namespace lists and exports no others", async () => {
  const made = await cli(["token", "--ns", "shop", "--scopes", "read,admin", "--json"], {
    environment: { TOKEN_SECRET: SECRET },
  });
  const own = { THROTTR_TOKEN: (JSON.parse(made.out) as { token: string }).token };
  const target = join(folder, "refused");
  for (const line of ["namespaces", `export --all-namespaces ${target}`]) {
    const { exitCode, err } = await run(from, line, own);
    expect({ exitCode, err }).toEqual({
      exitCode: 3,
      err: expect.stringContaining("deployment_only") as string,
    });
  }
  expect(existsSync(target) ? readdirSync(target) : []).toEqual([]);
});

it("an import of all namespaces needs a folder that an export has written", async () => {
  for (const path of [join(folder, "nowhere"), folder]) {
    const { exitCode, err } = await run(to, `import --all-namespaces ${path}`);
    expect({ exitCode, err }).toEqual({
      exitCode: 2,
      err: expect.stringContaining(path) as string,
    });
  }
});

it("a token is revoked by the ID that was printed with it, and all by a moment", async () => {
  const environment = { TOKEN_SECRET: SECRET };
  const made = await cli(["token", "--ns", "shop"], { environment });
  const id = /^id (\S{16}), expires /.exec(made.err)![1]!;
  const own = { THROTTR_TOKEN: made.out.trim() };
  expect(await run(from, "query visits", own)).toMatchObject({ exitCode: 0 });
  const [revoked] = await printed(from, `token revoke --namespace shop --id ${id} --json`);
  expect(revoked).toEqual({ revoked: true, id });
  expect(await run(from, "query visits", own)).toMatchObject({
    exitCode: 3,
    err: expect.stringContaining("token_revoked") as string,
  });
  const [list] = await printed(from, "token revocations --namespace shop --json");
  expect(list).toMatchObject({ issuedBeforeMs: null, tokens: [{ id, expiresAtMs: null }] });
  expect((await run(from, "token revocations --namespace shop")).out).toMatch(
    /^ID +REVOKED +EXPIRES/,
  );

  const other = await cli(["token", "--ns", "shop"], { environment });
  const all = "token revoke --namespace shop --all-before";
  expect(await run(from, `${all} 2020-01-01T00:00:00Z`)).toMatchObject({ exitCode: 0 });
  expect(await run(from, "query visits", { THROTTR_TOKEN: other.out.trim() })).toMatchObject({
    exitCode: 0,
  });
  // A token counts whole seconds: this one is older than now.
  expect(await run(from, `${all} ${Date.now() + 1000}`)).toMatchObject({ exitCode: 0 });
  expect(await run(from, "query visits", { THROTTR_TOKEN: other.out.trim() })).toMatchObject({
    exitCode: 3,
  });
});

it.each([
  ["token revoke", "--id or --all-before"],
  ["token revoke --id a --all-before now", "cannot be used with"],
  ["token revoke --all-before tomorrow", "Expected now, or a time"],
  ["token revoke --all-before now --expires-at now", "--expires-at: belongs to --id"],
  ["token", "--ns: give a namespace"],
])("%j is refused with what is wrong", async (line, said) => {
  const { exitCode, err } = await run(from, line, { TOKEN_SECRET: SECRET });
  expect({ exitCode, err }).toEqual({ exitCode: 2, err: expect.stringContaining(said) as string });
});
