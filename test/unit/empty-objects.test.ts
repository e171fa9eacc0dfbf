/** What a start removes of objects that hold nothing, and what it leaves of those that it only reads. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { UNIQUE_KEYS } from "../../src/cli/serve/configuration.ts";
import { removeEmptyObjects } from "../../src/cli/serve/empty-objects.ts";

const ROW = "CREATE TABLE _cf_KV (key TEXT, value BLOB); INSERT INTO _cf_KV VALUES ('a', x'ff')";

describe("removing empty objects", () => {
  let objects: string;
  let folder: string;

  beforeEach(() => {
    objects = mkdtempSync(join(tmpdir(), "throttr-objects-"));
    folder = join(objects, UNIQUE_KEYS.Channel!);
    mkdirSync(folder);
  });

  afterEach(() => rmSync(objects, { recursive: true, force: true }));

  /** A database as workerd makes them, with a log. */
  function open(name: string, statements: string): DatabaseSync {
    const database = new DatabaseSync(join(folder, `${name}.sqlite`));
    database.exec(`PRAGMA journal_mode = WAL; ${statements}`);
    return database;
  }

  it("reading objects and their alarms leaves no file beside them", async () => {
    open("metadata", "CREATE TABLE _cf_ALARM (actor_id TEXT)").close();
    open("full", ROW).close();
    open("empty", "CREATE TABLE _cf_KV (key TEXT, value BLOB)").close();
    expect(await removeEmptyObjects(objects)).toBe(1);
    expect(readdirSync(folder)).toEqual(["full.sqlite", "metadata.sqlite"]);
  });

  it("the log of an object stays, with the rows that are only there", async () => {
    const writer = open("full", ROW);
    expect(readdirSync(folder)).toEqual(["full.sqlite", "full.sqlite-shm", "full.sqlite-wal"]);
    expect(await removeEmptyObjects(objects)).toBe(0);
    expect(readdirSync(folder)).toEqual(["full.sqlite", "full.sqlite-shm", "full.sqlite-wal"]);
    writer.close();
  });
});
