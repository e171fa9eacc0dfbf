/** The simulator's storage does what the platform's does: what workerd shows, and what may become of writes that are not durable. */
import { afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { Random } from "../../simulator/kernel/random.ts";
import { Trace } from "../../simulator/kernel/trace.ts";
import { VirtualTime } from "../../simulator/kernel/virtual-time.ts";
import { Disk } from "../../simulator/platform/disk/disk.ts";
import type { Storage } from "../../simulator/platform/disk/storage.ts";
import { LifeOver, type Life } from "../../simulator/platform/life.ts";
import { runs } from "../../support/runs.ts";

type CommitFate = "durable" | "failed" | "durable, and reported as failed";

/** A life that ends when a test says so, or at a call that a test names. */
class TestLife implements Life {
  readonly name = "test #1";
  isOver = false;
  clockMs = 0;
  readonly stoodStillMs = 0;
  brokenBy: string | null = null;
  /** Calls in their order. */
  readonly calls: string[] = [];
  /** The life ends at the next call of this name. */
  endsAt: string | null = null;
  readonly #time: VirtualTime;
  readonly #end: () => void;

  constructor(time: VirtualTime, end: () => void) {
    this.#time = time;
    this.#end = end;
  }

  call(what: string): void {
    this.calls.push(what);
    if (what === this.endsAt) {
      this.isOver = true;
      this.#end();
    }
    if (this.isOver) throw new LifeOver(this.name);
  }

  later(delayMs: number, _what: string, event: () => void): () => void {
    return this.#time.after(delayMs, () => {
      if (!this.isOver) event();
    });
  }

  settled<T>(): Promise<T> {
    throw new Error("storage settles its promises by events that it plans itself");
  }

  whenDurable(): void {
    throw new Error("the gate is the object's");
  }

  break(reason: string): void {
    this.isOver = true;
    this.brokenBy = reason;
  }
}

let time: VirtualTime;
let fates: CommitFate[];
let delays: number[];
let disk: Disk;
let life: TestLife;
let storage: Storage;
let sql: Storage["sql"];

/** The next life of the object. */
function nextLife(of = disk): void {
  life = new TestLife(time, () => of.crash(new Random(1)));
  storage = of.open(life);
  sql = storage.sql;
}

beforeEach(() => {
  time = new VirtualTime();
  fates = [];
  delays = [];
  const site = {
    time,
    trace: new Trace(time),
    faults: { commitMs: () => delays.shift() ?? 10, commitFate: () => fates.shift() ?? "durable" },
  };
  disk = new Disk(site, "test");
  nextLife();
});

afterEach(() => disk.close());

/** One event of the object. */
function turn(run: () => void): void {
  run();
  disk.endTurn();
}

/** Lets all that is planned happen. */
function settleAll(): void {
  while (time.nextMs < Infinity) time.step();
}

const insert = (n: number): void => void sql.exec("INSERT INTO t (n) VALUES (?)", n);
const stored = (): unknown[] =>
  sql
    .exec("SELECT n FROM t ORDER BY n")
    .toArray()
    .map(({ n }) => n);
const column = (value: unknown): unknown => sql.exec("SELECT ? AS v", value).one().v;
const written = (query: string, ...bindings: unknown[]): number =>
  sql.exec(query, ...bindings).rowsWritten;

/** A table whose rows are durable one by one after 10, 20 and 30 ms. */
function threeTurns(): void {
  turn(() => sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)"));
  settleAll();
  delays = [10, 20, 30];
  for (const n of [1, 2, 3]) turn(() => insert(n));
}

describe("turns", () => {
  it("a turn is seen at once and durable when its commit has ended", () => {
    const durableAtMs: number[] = [];
    threeTurns();
    expect(stored()).toEqual([1, 2, 3]);
    disk.onDurable(() => durableAtMs.push(time.elapsedMs));
    expect(disk.isDurable).toBe(false);
    const beganAtMs = time.elapsedMs;
    settleAll();
    expect(durableAtMs).toEqual([beganAtMs + 30]);
    expect(disk.isDurable).toBe(true);
  });

  it("commits end in the order of their turns whatever they take", () => {
    turn(() => sql.exec("CREATE TABLE t (n)"));
    settleAll();
    delays = [30, 5, 1];
    const order: string[] = [];
    for (const n of [1, 2, 3]) {
      turn(() => insert(n));
      const beganAtMs = time.nowMs;
      disk.onDurable(() => order.push(`${n} after ${time.nowMs - beganAtMs}`));
    }
    settleAll();
    expect(order).toEqual(["1 after 30", "2 after 30", "3 after 30"]);
  });

  it("what waits for durability waits for writes before it and for none after it", () => {
    turn(() => sql.exec("CREATE TABLE t (n)"));
    settleAll();
    delays = [10, 50];
    let firstAtMs = 0;
    const beganAtMs = time.nowMs;
    turn(() => {
      insert(1);
      disk.onDurable(() => (firstAtMs = time.nowMs - beganAtMs));
    });
    turn(() => insert(2));
    settleAll();
    expect(firstAtMs).toBe(10);
  });

  it("what waits for durability keeps its order, also when its time has come", () => {
    const order: string[] = [];
    turn(() => sql.exec("CREATE TABLE t (n)"));
    disk.onDurable(() => {
      order.push("first");
      disk.onDurable(() => order.push("third"));
    });
    disk.onDurable(() => order.push("second"));
    settleAll();
    expect(order).toEqual(["first", "second", "third"]);
    expect(disk.isDurable).toBe(true);
  });

  it("an event that only reads leaves nothing to commit", () => {
    threeTurns();
    settleAll();
    let isDurable = false;
    turn(() => {
      stored();
      storage.kv.get("x");
      storage.kv.list().next();
      void storage.getAlarm();
      disk.onDurable(() => (isDurable = true));
    });
    expect(isDurable).toBe(true);
    expect(time.nextMs).toBe(Infinity);
  });

  it("hundreds of turns may be on their way", () => {
    turn(() => sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)"));
    for (let n = 0; n < 500; n++) turn(() => insert(n));
    expect(disk.database.depth).toBeLessThan(100);
    settleAll();
    expect(disk.isDurable).toBe(true);
    expect(stored()).toHaveLength(500);
    expect(disk.database.depth).toBe(0);
  });
});

describe("a crash", () => {
  const keeping = (count: number) => ({ int: () => count });

  it("keeps any number of the first turns", () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 50; seed++) {
      sql.exec("DROP TABLE IF EXISTS t");
      disk.endTurn();
      settleAll();
      threeTurns();
      disk.crash(new Random(seed));
      nextLife();
      expect(disk.isDurable).toBe(true);
      seen.add(JSON.stringify(stored()));
    }
    expect([...seen].toSorted()).toEqual(["[1,2,3]", "[1,2]", "[1]", "[]"]);
  });

  it("keeps what was durable, and loses the event that is under way", () => {
    threeTurns();
    time.step();
    insert(4);
    disk.crash(keeping(0));
    nextLife();
    expect(stored()).toEqual([1]);
  });

  it("never runs what waited for a turn, kept or not", () => {
    threeTurns();
    let hasRun = false;
    disk.onDurable(() => (hasRun = true));
    disk.crash(keeping(3));
    settleAll();
    expect(stored()).toEqual([1, 2, 3]);
    expect(hasRun).toBe(false);
  });

  it("takes tables, key-value pairs and the alarm of a turn with it", async () => {
    turn(() => {
      sql.exec("CREATE TABLE t (n)");
      storage.kv.put("a", 1);
      void storage.setAlarm(5000);
    });
    settleAll();
    turn(() => {
      sql.exec("DROP TABLE t");
      sql.exec("CREATE TABLE u (n)");
      storage.kv.put("a", 2);
      void storage.setAlarm(7000);
    });
    expect(disk.alarmMs).toBe(7000);
    disk.crash(keeping(0));
    nextLife();
    expect(stored()).toEqual([]);
    expect(() => sql.exec("SELECT * FROM u")).toThrow("no such table: u: SQLITE_ERROR");
    expect(storage.kv.get("a")).toBe(1);
    expect(disk.alarmMs).toBe(5000);
    expect(await storage.getAlarm()).toBe(5000);
  });

  it("at a call ends the life within the event, and what it still does changes nothing", () => {
    threeTurns();
    settleAll();
    life.endsAt = "kv.put";
    insert(4);
    expect(() => storage.kv.put("a", 1)).toThrow(LifeOver);
    expect(() => insert(5)).toThrow(LifeOver);
    disk.endTurn();
    nextLife();
    expect(stored()).toEqual([1, 2, 3]);
  });

  it("within a transaction undoes it with its turn", async () => {
    threeTurns();
    turn(() => void storage.setAlarm(5000));
    settleAll();
    disk.beginAlarm();
    life.endsAt = "kv.put";
    const transaction = (): void =>
      storage.transactionSync(() => {
        insert(4);
        try {
          storage.kv.put("a", 1);
        } catch {
          // As code that catches too much.
        }
      });
    expect(transaction).toThrow(LifeOver);
    nextLife();
    expect(stored()).toEqual([1, 2, 3]);
    expect(disk.database.depth).toBe(0);
    expect(await storage.getAlarm()).toBe(5000);
  });

  it("every call to storage is a crash point", () => {
    sql.exec("SELECT 1");
    void sql.databaseSize;
    storage.kv.put("a", 1);
    storage.kv.get("a");
    storage.kv.list();
    storage.kv.delete("a");
    void storage.sync();
    void storage.setAlarm(1);
    void storage.getAlarm();
    void storage.deleteAlarm();
    storage.transactionSync(() => {});
    void storage.deleteAll();
    expect(life.calls).toEqual([
      "sql.exec SELECT 1",
      "sql.databaseSize",
      "kv.put",
      "kv.get",
      "kv.list",
      "kv.delete",
      "storage.sync",
      "storage.setAlarm",
      "storage.getAlarm",
      "storage.deleteAlarm",
      "storage.transactionSync",
      "storage.deleteAll",
    ]);
  });

  it("of an aborted object loses the turn of the abort and no other", () => {
    threeTurns();
    insert(4);
    const left: string[] = [];
    disk.onDurable(() => left.push("of the abort"));
    life.isOver = true;
    disk.dropTurn();
    nextLife();
    expect(stored()).toEqual([1, 2, 3]);
    disk.onDurable(() => left.push("of the next life"));
    settleAll();
    expect(left).toEqual(["of the next life"]);
    expect(disk.isDurable).toBe(true);
    expect(stored()).toEqual([1, 2, 3]);
  });
});

describe("any history", () => {
  /** What a person would expect the object to have stored. */
  interface Model {
    readonly rows: readonly number[];
    readonly kv: number | undefined;
    readonly alarmMs: number | null;
    readonly tables: readonly string[];
  }

  const seen = (): Model => ({
    rows: stored() as number[],
    kv: storage.kv.get<number>("k"),
    alarmMs: disk.alarmMs,
    tables: sql
      .exec("SELECT name FROM sqlite_master WHERE name LIKE 'extra%' ORDER BY name")
      .toArray()
      .map(({ name }) => name as string),
  });

  function writeAny(random: Random, n: number, model: Model): Model {
    switch (random.int(6)) {
      case 0:
        storage.kv.put("k", n);
        return { ...model, kv: n };
      case 1:
        void storage.setAlarm(n + 1);
        return { ...model, alarmMs: n + 1 };
      case 2: {
        const name = `extra${random.int(3)}`;
        const isThere = model.tables.includes(name);
        sql.exec(isThere ? `DROP TABLE ${name}` : `CREATE TABLE ${name} (a, UNIQUE (a))`);
        const others = model.tables.filter((other) => other !== name);
        return { ...model, tables: isThere ? others : [...others, name].toSorted() };
      }
      case 3:
        sql.exec("DELETE FROM t WHERE n % 3 = 0");
        return { ...model, rows: model.rows.filter((row) => row % 3 !== 0) };
      case 4:
        expect(() =>
          storage.transactionSync(() => {
            writeAny(random, n, model);
            insert(-n);
            throw new Error("undone");
          }),
        ).toThrow("undone");
        return model;
      default:
        insert(n);
        return { ...model, rows: [...model.rows, n] };
    }
  }

  it("leaves what was durable and some of the first turns behind it, each of them whole", () => {
    const seed = inject("seed");
    const random = new Random(seed);
    let undecided = 0;
    turn(() => sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)"));
    settleAll();
    // States behind each turn that is not known to be durable, oldest first; the first of them is durable.
    let states: Model[] = [seen()];
    /** What is there after a crash or a failed commit. */
    const restart = (): void => {
      nextLife();
      const now = seen();
      expect(states, `seed ${seed}`).toContainEqual(now);
      undecided += states.length - 1;
      states = [now];
      expect(disk.isDurable).toBe(true);
    };
    for (let n = 1; n < runs(4000); n++) {
      delays = [random.skewed(0.1, 20)];
      fates = [
        random.chance(0.05)
          ? random.pick(["failed", "durable, and reported as failed"])
          : "durable",
      ];
      let model = states.at(-1)!;
      for (let writes = 0; writes <= random.int(3); writes++) {
        model = writeAny(random, n * 10 + writes, model);
        expect(seen(), `seed ${seed}`).toEqual(model);
      }
      if (random.chance(0.05)) {
        disk.crash(random);
        restart();
        continue;
      }
      if (random.chance(0.05)) {
        disk.dropTurn();
        expect(seen(), `seed ${seed}`).toEqual(states.at(-1));
        continue;
      }
      disk.endTurn();
      states.push(model);
      const { length } = states;
      disk.onDurable(() => states.splice(0, states.indexOf(model)));
      for (let steps = random.int(3); steps > 0 && time.nextMs < Infinity; steps--) time.step();
      expect(states.length).toBeLessThanOrEqual(length);
      if (life.isOver) restart();
    }
    expect(undecided).toBeGreaterThan(20);
  });
});

describe("a commit that fails", () => {
  it("breaks the life, and loses its turn and those behind it", () => {
    turn(() => sql.exec("CREATE TABLE t (n)"));
    settleAll();
    fates = ["durable", "failed", "durable"];
    const left: number[] = [];
    for (const n of [1, 2, 3]) {
      turn(() => insert(n));
      disk.onDurable(() => left.push(n));
    }
    settleAll();
    expect(life.brokenBy).toContain("caused object to be reset");
    nextLife();
    expect(stored()).toEqual([1]);
    expect(left).toEqual([1]);
  });

  it("may have been durable", () => {
    turn(() => sql.exec("CREATE TABLE t (n)"));
    settleAll();
    fates = ["durable, and reported as failed", "durable"];
    let hasLeft = false;
    turn(() => insert(1));
    disk.onDurable(() => (hasLeft = true));
    turn(() => insert(2));
    settleAll();
    expect(life.brokenBy).not.toBeNull();
    nextLife();
    expect(stored()).toEqual([1]);
    expect(hasLeft).toBe(false);
  });

  it("comes at once for a foreign key that leads nowhere", () => {
    turn(() => {
      sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)");
      sql.exec("CREATE TABLE child (id REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED)");
    });
    turn(() => insert(1));
    turn(() => sql.exec("INSERT INTO child VALUES (1)"));
    expect(life.isOver).toBe(false);
    turn(() => sql.exec("INSERT INTO child VALUES (2)"));
    expect(life.brokenBy).toMatch(/^Durable Object was reset .*SQLITE_CONSTRAINT_FOREIGNKEY\)$/);
    nextLife();
    settleAll();
    expect(sql.exec("SELECT id FROM child").toArray()).toEqual([{ id: 1 }]);
  });
});

describe("sync", () => {
  /** Whether a promise has settled by now; step by step, as promises settle between events. */
  async function settlesAfter(promise: Promise<void>, ms: number): Promise<void> {
    const begunAtMs = time.nowMs;
    let settledAtMs: number | null = null;
    void promise.then(() => (settledAtMs = time.nowMs));
    await Promise.resolve();
    expect(settledAtMs).toBeNull();
    while (time.nextMs < Infinity) {
      time.step();
      await Promise.resolve();
      await Promise.resolve();
    }
    expect(settledAtMs).toBe(begunAtMs + ms);
  }

  it("settles when all that was written before is durable", async () => {
    threeTurns();
    await settlesAfter(storage.sync(), 30);
  });

  it("takes an event of its own where nothing was written", async () => {
    await settlesAfter(storage.sync(), 0);
  });

  it("never settles when the commit fails", async () => {
    fates = ["failed"];
    turn(() => storage.kv.put("a", 1));
    let hasSettled = false;
    const note = (): void => {
      hasSettled = true;
    };
    storage.sync().then(note, note);
    settleAll();
    await new Promise(setImmediate);
    expect(life.isOver).toBe(true);
    expect(hasSettled).toBe(false);
  });
});

describe("a full disk", () => {
  it("refuses what needs room, and serves reads, deletions and the alarm", () => {
    threeTurns();
    disk.fillUp({ isReset: () => false });
    const full = "database or disk is full: SQLITE_FULL";
    expect(() => insert(4)).toThrow(full);
    expect(() => sql.exec("CREATE TABLE u (n)")).toThrow(full);
    expect(() => storage.kv.put("a", 1)).toThrow(full);
    sql.exec("DELETE FROM t WHERE n = 1");
    void storage.setAlarm(5000);
    expect(stored()).toEqual([2, 3]);
    disk.endTurn();
    settleAll();
    expect(life.isOver).toBe(false);
    disk.makeRoom();
    insert(4);
    expect(stored()).toEqual([2, 3, 4]);
  });

  it("costs the whole turn and the life, as SQLite gives up the transaction", () => {
    threeTurns();
    disk.fillUp();
    sql.exec("DELETE FROM t WHERE n = 1");
    expect(() => insert(4)).toThrow("SQLITE_FULL");
    expect(stored()).toEqual([1, 2, 3]);
    expect(() => sql.exec("DELETE FROM t WHERE n = 2")).toThrow("SQLITE_FULL");
    expect(life.isOver).toBe(false);
    disk.endTurn();
    expect(life.brokenBy).toBe("database or disk is full: SQLITE_FULL");
    nextLife();
    settleAll();
    expect(stored()).toEqual([1, 2, 3]);
  });

  it("within a transaction costs the turn around it, too", () => {
    threeTurns();
    disk.fillUp();
    sql.exec("DELETE FROM t WHERE n = 1");
    const swallowing = (): void =>
      storage.transactionSync(() => {
        expect(() => insert(4)).toThrow("SQLITE_FULL");
      });
    expect(swallowing).toThrow("SQLITE_FULL");
    disk.endTurn();
    expect(life.isOver).toBe(true);
    nextLife();
    settleAll();
    expect(stored()).toEqual([1, 2, 3]);
    expect(disk.database.depth).toBe(0);
  });

  it("takes what fits", () => {
    sql.exec("CREATE TABLE b (row BLOB)");
    disk.fillUp({ freeBytes: 30_000 });

    sql.exec("INSERT INTO b VALUES (?)", new Uint8Array(20_000));
    expect(() => sql.exec("INSERT INTO b VALUES (?)", new Uint8Array(20_000))).toThrow("full");
  });
});

describe("an object that has moved", () => {
  it("goes on with what a crash would keep, while the stale life reads all and commits nothing", () => {
    threeTurns();
    time.step();
    const stale = life;
    const staleSql = sql;
    const next = disk.handOver({ int: () => 1 });
    nextLife(next);
    expect(stored()).toEqual([1, 2]);
    expect(staleSql.exec("SELECT n FROM t").toArray()).toHaveLength(3);
    insert(9);
    next.endTurn();
    expect(staleSql.exec("SELECT n FROM t").toArray()).toHaveLength(3);
    const left: string[] = [];
    disk.onDurable(() => left.push("stale"));
    next.onDurable(() => left.push("next"));
    settleAll();
    expect(stale.brokenBy).not.toBeNull();
    expect(left).toEqual(["next"]);
    expect(life.isOver).toBe(false);
    expect(stored()).toEqual([1, 2, 9]);
    next.close();
  });

  it("breaks the stale life at its first commit", () => {
    threeTurns();
    settleAll();
    const next = disk.handOver(new Random(1));
    turn(() => stored());
    settleAll();
    expect(life.isOver).toBe(false);
    turn(() => insert(4));
    settleAll();
    expect(life.isOver).toBe(true);
    nextLife(next);
    expect(stored()).toEqual([1, 2, 3]);
    next.close();
  });
});

describe("alarms", () => {
  it("a ringing alarm stays stored, and the object does not see it", async () => {
    turn(() => void storage.setAlarm(5000));
    disk.beginAlarm();
    expect(await storage.getAlarm()).toBeNull();
    expect(disk.alarmMs).toBe(5000);
    turn(() => disk.endAlarm());
    expect(disk.alarmMs).toBeNull();
  });

  it("an alarm that was set while it rang is the next one", async () => {
    turn(() => void storage.setAlarm(5000));
    disk.beginAlarm();
    turn(() => void storage.setAlarm(5000));
    expect(await storage.getAlarm()).toBe(5000);
    turn(() => disk.endAlarm());
    expect(disk.alarmMs).toBe(5000);
  });

  it("an alarm that was set in a transaction that throws while it rang is not the next one", async () => {
    turn(() => void storage.setAlarm(5000));
    disk.beginAlarm();
    const failing = (): void =>
      storage.transactionSync(() => {
        void storage.setAlarm(6000);
        throw new Error("no");
      });
    expect(failing).toThrow("no");
    expect(await storage.getAlarm()).toBeNull();
    turn(() => disk.endAlarm());
    expect(disk.alarmMs).toBeNull();
  });

  it("an alarm that failed is seen again", async () => {
    turn(() => void storage.setAlarm(5000));
    disk.beginAlarm();
    turn(() => disk.endAlarm(false));
    expect(await storage.getAlarm()).toBe(5000);
  });

  it("an alarm whose handler met a full disk stays stored, as its writes are lost", () => {
    turn(() => sql.exec("CREATE TABLE t (n)"));
    turn(() => void storage.setAlarm(5000));
    settleAll();
    disk.fillUp();
    disk.beginAlarm();
    turn(() => {
      expect(() => insert(1)).toThrow("SQLITE_FULL");
      disk.endAlarm();
    });
    expect(life.isOver).toBe(true);
    expect(disk.alarmMs).toBe(5000);
  });

  it("an alarm that the platform gives up between events is gone when that is durable", () => {
    turn(() => void storage.setAlarm(5000));
    settleAll();
    disk.dropAlarm();
    expect(disk.alarmMs).toBeNull();
    settleAll();
    expect(disk.isDurable).toBe(true);
    disk.crash(new Random(1));
    expect(disk.alarmMs).toBeNull();
  });

  it("one that was ringing in a crash is stored still", async () => {
    turn(() => void storage.setAlarm(5000));
    settleAll();
    disk.beginAlarm();
    disk.crash(new Random(1));
    nextLife();
    expect(await storage.getAlarm()).toBe(5000);
  });

  it("tells of each change", () => {
    const told: (number | null)[] = [];
    disk.onAlarmChanged = () => told.push(disk.alarmMs);
    turn(() => void storage.setAlarm(5000.9));
    turn(() => void storage.setAlarm(new Date(6000)));
    turn(() => void storage.deleteAlarm());
    turn(() => void storage.setAlarm(7000));
    turn(() => void storage.deleteAll());
    expect(told).toEqual([5000, 6000, null, 7000, null]);
  });

  it("times that the platform refuses are refused", async () => {
    await expect(storage.setAlarm(0)).rejects.toThrow("alarm time <= 0");
    await expect(storage.setAlarm(NaN)).rejects.toThrow(TypeError);
    await expect(storage.setAlarm(1e15)).rejects.toThrow("after 2189");
    await storage.setAlarm(4e12);
  });
});

describe("sql.exec", () => {
  it("takes bindings as the platform does", () => {
    expect(column(undefined)).toBeNull();
    expect(column(NaN)).toBeNull();
    expect(column(true)).toBe("true");
    expect(column(new Date(0))).toContain("1970");
    expect(column(new Uint8Array(0))).toEqual(new ArrayBuffer(0));
    expect(column(new ArrayBuffer(0))).toEqual(new ArrayBuffer(0));
    expect(column(new Uint8Array([1, 2, 3, 4]).subarray(1, 3))).toEqual(Uint8Array.of(2, 3).buffer);
    expect(() => column(5n)).toThrow("Cannot convert a BigInt value to a number");
    for (const bindings of [[], [1], [1, 2, 3]]) {
      expect(() => sql.exec("SELECT ?, ?", ...bindings)).toThrow("Wrong number of parameter");
    }
    expect(sql.exec("SELECT ?2 AS a, '?' AS b, ?1 AS c -- ?", 1, 2).one()).toEqual({
      a: 2,
      b: "?",
      c: 1,
    });
  });

  it("returns rows as the platform does", () => {
    const rows = "SELECT 1 AS a UNION SELECT 2";
    const cursor = sql.exec(rows);
    expect(cursor.next()).toEqual({ done: false, value: { a: 1 } });
    expect(cursor.toArray()).toEqual([{ a: 2 }]);
    expect(cursor.next()).toEqual({ done: true, value: undefined });
    expect(cursor.rowsRead).toBe(2);
    expect([...sql.exec("SELECT 1 AS a, 2 AS a").raw()]).toEqual([[1, 2]]);
    expect(sql.exec("SELECT 1 AS a, 2 AS a").one()).toEqual({ a: 2 });
    expect(sql.exec("SELECT 1 AS a, 2 AS a, 3").columnNames).toEqual(["a", "a", "3"]);
    expect(() => sql.exec("SELECT 1 WHERE 0").one()).toThrow("but got no results");
    expect(() => sql.exec(rows).one()).toThrow("but got multiple results");
    expect(sql.exec("SELECT 9007199254740993 AS v").one()).toEqual({ v: 9007199254740992 });
    const broken = sql.exec(rows);
    for (const _ of broken) break;
    expect(broken.toArray()).toEqual([{ a: 2 }]);
  });

  it("a statement that was prepared before a column was added returns it", () => {
    sql.exec("CREATE TABLE t (n)");
    insert(1);
    expect(sql.exec("SELECT * FROM t").one()).toEqual({ n: 1 });
    sql.exec("ALTER TABLE t ADD COLUMN z");
    expect(sql.exec("SELECT * FROM t").one()).toEqual({ n: 1, z: null });
  });

  it("runs several statements of one text, and keeps those before one that fails", () => {
    sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY); INSERT INTO t VALUES (?);", 1);
    expect(() => sql.exec("INSERT INTO t VALUES (2); INSERT INTO t VALUES (1); SELECT 1")).toThrow(
      "UNIQUE constraint failed: t.n: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)",
    );
    expect(stored()).toEqual([1, 2]);
    expect(() => sql.exec("INSERT INTO t VALUES (?); SELECT 1", 5)).toThrow(
      "only the last statement can have parameters",
    );
    for (const text of ["", " ; ", "-- nothing"]) {
      expect(() => sql.exec(text)).toThrow("SQL code did not contain a statement.");
    }
  });

  it("undoes a statement that fails, and nothing else", () => {
    sql.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)");
    insert(1);
    expect(() => sql.exec("INSERT INTO t VALUES (7), (1)")).toThrow("UNIQUE");
    expect(stored()).toEqual([1]);
  });

  it("drops no table while rows of a cursor are unread", () => {
    threeTurns();
    const cursor = sql.exec("SELECT n FROM t");
    cursor.next();
    expect(() => sql.exec("DROP TABLE t")).toThrow("database table is locked: SQLITE_LOCKED");
    expect(() => sql.exec("DROP TABLE IF EXISTS t")).toThrow("SQLITE_LOCKED");
    cursor.toArray();
    sql.exec("DROP TABLE IF EXISTS t");
    sql.exec("DROP TABLE IF EXISTS t");
  });

  it("counts rows written as workerd does", () => {
    expect(written("CREATE TABLE a (n INTEGER PRIMARY KEY, row BLOB NOT NULL)")).toBe(2);
    expect(written("CREATE TABLE b (x INTEGER, y TEXT)")).toBe(2);
    expect(written("CREATE TABLE c (k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID")).toBe(2);
    expect(written("CREATE TABLE d (k TEXT PRIMARY KEY, v INTEGER)")).toBe(3);
    expect(written("CREATE TABLE IF NOT EXISTS d (k TEXT PRIMARY KEY, v INTEGER)")).toBe(0);
    expect(written("CREATE INDEX bx ON b (x)")).toBe(1);
    expect(
      written("INSERT INTO a (row) VALUES (?), (?)", new Uint8Array(1), new Uint8Array(1)),
    ).toBe(2);
    expect(written("INSERT INTO b VALUES (1, 'x'), (2, 'y')")).toBe(4);
    expect(written("INSERT INTO c VALUES ('k', 1), ('l', 2)")).toBe(2);
    expect(written("INSERT INTO d VALUES ('k', 1), ('l', 2)")).toBe(4);
    expect(written("INSERT OR REPLACE INTO c VALUES ('k', 2)")).toBe(1);
    expect(written("INSERT OR REPLACE INTO d VALUES ('k', 2)")).toBe(2);
    expect(written("INSERT OR IGNORE INTO c VALUES ('k', 2)")).toBe(0);
    expect(written("UPDATE a SET row = ?", new Uint8Array(1))).toBe(2);
    expect(written("UPDATE a SET row = ? WHERE n = 100", new Uint8Array(1))).toBe(0);
    expect(written("UPDATE b SET y = 'z' WHERE x = 1")).toBe(1);
    expect(written("UPDATE b SET x = 7 WHERE x = 1")).toBe(2);
    expect(written("UPDATE c SET k = 'kk' WHERE k = 'k'")).toBe(1);
    expect(written("DELETE FROM d WHERE k = 'k'")).toBe(1);
    expect(written("DELETE FROM a")).toBe(2);
    expect(written("ALTER TABLE a ADD COLUMN extra INTEGER")).toBe(1);
    expect(written("CREATE INDEX cv ON c (v)")).toBe(3);
    expect(written("DROP TABLE a")).toBe(0);
    expect(written("SELECT * FROM c")).toBe(0);
    expect(written("CREATE TABLE e (n); CREATE TABLE f (n)")).toBe(2);
  });

  it("refuses what the platform refuses", () => {
    for (const text of ["BEGIN", "COMMIT", "SAVEPOINT x", "ROLLBACK"]) {
      expect(() => sql.exec(text)).toThrow("To execute a transaction, please use");
    }
    storage.kv.put("a", 1);
    for (const text of [
      "PRAGMA page_count",
      "PRAGMA user_version = 3",
      "ATTACH 'x' AS y",
      "CREATE TEMP TABLE t (a)",
      "CREATE TABLE _cf_x (a)",
      "DROP TABLE _cf_KV",
      "DELETE FROM _cf_KV",
    ]) {
      expect(() => sql.exec(text)).toThrow("not authorized: SQLITE_AUTH");
    }
    expect(() => sql.exec("SELECT * FROM _cf_KV")).toThrow("prohibited: SQLITE_AUTH");
    expect(() => sql.exec("VACUUM")).toThrow(
      "cannot VACUUM from within a transaction: SQLITE_ERROR",
    );
    expect(() => sql.exec("SELEC")).toThrow('near "SELEC": syntax error');
    expect(sql.exec("PRAGMA table_info(_none)").toArray()).toEqual([]);
  });

  it("enforces the platform's limits", () => {
    sql.exec("CREATE TABLE b (row BLOB)");
    sql.exec("INSERT INTO b VALUES (?)", new Uint8Array(1_900_000));
    expect(() => sql.exec("INSERT INTO b VALUES (?)", new Uint8Array(2_000_000))).toThrow(
      "SQLITE_TOOBIG",
    );
    expect(() => sql.exec(`SELECT '${"a".repeat(100_000)}'`)).toThrow("SQLITE_TOOBIG");
    const hundredOne = Array<number>(101).fill(1);
    expect(() =>
      sql.exec(`SELECT max(${hundredOne.map(() => "?").join()})`, ...hundredOne),
    ).toThrow(/too many (SQL variables|arguments)/);
    expect(() => sql.exec(`SELECT ${hundredOne.join()}`)).toThrow("too many columns in result set");
    expect(() => sql.exec(`SELECT 'a' LIKE '${"a".repeat(60)}'`)).toThrow("pattern too complex");
  });

  it("databaseSize grows with what is stored and shrinks with what is dropped", () => {
    expect(sql.databaseSize).toBe(4096);
    sql.exec("CREATE TABLE b (row BLOB)");
    sql.exec("INSERT INTO b VALUES (?)", new Uint8Array(100_000));
    expect(sql.databaseSize).toBeGreaterThan(100_000);
    sql.exec("DROP TABLE b");
    expect(sql.databaseSize).toBeLessThan(20_000);
  });
});

describe("kv", () => {
  it("keeps copies by structured clone", () => {
    const value = { list: [1, new Map([[1, 2]]), new Date(5), 5n], bytes: Uint8Array.of(1, 2) };
    storage.kv.put("a", value);
    expect(storage.kv.get("a")).toEqual(value);
    expect(storage.kv.get("a")).not.toBe(storage.kv.get("a"));
    storage.kv.put("u", undefined);
    expect(storage.kv.get("u")).toBeUndefined();
    expect(() => storage.kv.put("f", () => 1)).toThrow("could not be cloned");
    expect(storage.kv.delete("a")).toBe(true);
    expect(storage.kv.delete("a")).toBe(false);
    expect(storage.kv.get("a")).toBeUndefined();
  });

  it("lists keys in the order of their bytes, within bounds", () => {
    const keys = (options?: Parameters<Storage["kv"]["list"]>[0]): string[] =>
      [...storage.kv.list(options)].map(([key]) => key);
    expect(keys()).toEqual([]);
    for (const key of ["b", "a", "ä", "Z", "a1", "\u{1F600}", "\uFFFD"]) storage.kv.put(key, 1);
    expect(keys()).toEqual(["Z", "a", "a1", "b", "ä", "\uFFFD", "\u{1F600}"]);
    expect(keys({ prefix: "a" })).toEqual(["a", "a1"]);
    expect(keys({ start: "a", end: "b" })).toEqual(["a", "a1"]);
    expect(keys({ startAfter: "a", limit: 1 })).toEqual(["a1"]);
    expect(keys({ reverse: true, limit: 2 })).toEqual(["\u{1F600}", "\uFFFD"]);
    expect(() => keys({ limit: 0 })).toThrow("List limit must be positive.");
    expect(() => keys({ start: "a", startAfter: "b" })).toThrow("both start and startAfter");
  });

  it("has one iterator at a time", () => {
    storage.kv.put("a", 1);
    storage.kv.put("b", 1);
    const first = storage.kv.list();
    first.next();
    storage.kv.list().next();
    expect(() => first.next()).toThrow("iterator was invalidated");
  });

  it("refuses keys and values above the documented limits", () => {
    storage.kv.put("k".repeat(2048), 1);
    expect(() => storage.kv.put("k".repeat(2049), 1)).toThrow("2048 bytes");
    expect(() => storage.kv.put("ä".repeat(1025), 1)).toThrow("2048 bytes");
    expect(() => storage.kv.put("big", new Uint8Array(2_000_000))).toThrow("SQLITE_TOOBIG");
  });
});

describe("deleteAll and transactionSync", () => {
  it("deleteAll acts at the call, and its turn can be lost like any other", () => {
    threeTurns();
    storage.kv.put("a", 1);
    disk.endTurn();
    settleAll();
    void storage.deleteAll();
    expect(sql.exec("SELECT name FROM sqlite_master").toArray()).toEqual([]);
    expect(storage.kv.get("a")).toBeUndefined();
    disk.endTurn();
    disk.crash({ int: () => 0 });
    nextLife();
    expect(stored()).toEqual([1, 2, 3]);
    expect(storage.kv.get("a")).toBe(1);
  });

  it("deleteAll cancels cursors, and writes go on in the same turn", () => {
    threeTurns();
    const cursor = sql.exec("SELECT n FROM t");
    void storage.deleteAll();
    expect(() => cursor.next()).toThrow("the database was deleted");
    turn(() => sql.exec("CREATE TABLE t (n)"));
    settleAll();
    expect(stored()).toEqual([]);
  });

  it("a transaction that throws undoes its own writes alone", async () => {
    sql.exec("CREATE TABLE t (n)");
    void storage.setAlarm(5000);
    insert(1);
    const failing = (): void =>
      storage.transactionSync(() => {
        insert(2);
        storage.kv.put("a", 1);
        void storage.setAlarm(6000);
        throw new Error("no");
      });
    expect(failing).toThrow("no");
    expect(stored()).toEqual([1]);
    expect(storage.kv.get("a")).toBeUndefined();
    expect(await storage.getAlarm()).toBe(5000);
  });

  it("an inner transaction that throws leaves the outer one's writes", () => {
    sql.exec("CREATE TABLE t (n)");
    const value = storage.transactionSync(() => {
      insert(1);
      expect(() =>
        storage.transactionSync(() => {
          insert(2);
          throw new Error("no");
        }),
      ).toThrow("no");
      return 5;
    });
    expect(value).toBe(5);
    expect(stored()).toEqual([1]);
    disk.endTurn();
    settleAll();
    expect(stored()).toEqual([1]);
  });

  it("deleteAll within a transaction is refused", async () => {
    const deleting = storage.transactionSync(() => storage.deleteAll());
    await expect(deleting).rejects.toThrow("within a transaction");
  });
});
