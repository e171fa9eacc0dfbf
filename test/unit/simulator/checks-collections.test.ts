/** The checker of what collections have while they are listed: correct histories pass, and each kind of forged one is refused. */
import { describe, expect, it } from "vitest";
import { checkCollections, type CollectionTerms } from "../../simulator/checks/collections.ts";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import { Facts } from "../../simulator/checks/facts.ts";
import type {
  Collection,
  ListedPage,
  ListedRow,
  ListingName,
  ListingOperation,
  ListingOutcome,
} from "../../simulator/checks/listing-calls.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

type Forged = ForgedCall<ListingOperation, ListingOutcome>;
/** Calls follow each other, so that no two moments are the same. */
type Draft = Omit<Forged, "begunMs" | "endedMs"> & Partial<Pick<Forged, "begunMs" | "endedMs">>;

const TABLE_CURSOR = new Uint8Array(256);

const termsOf = (more: Partial<CollectionTerms> = {}): CollectionTerms => ({
  facts: new Facts(new ClockHistory()),
  // One shard for small letters, another for capitals.
  objectOf: (_, key) => (key < "a" ? "Shard 0" : "Shard 1"),
  isOrdered: true,
  isToday: true,
  ...more,
});

function write(
  key: string,
  value: string,
  outcome: Forged["outcome"] = "written",
  more: { readonly ttlMs?: number; readonly collection?: "records" | "pairs" | "leases" } = {},
): Draft {
  const { ttlMs = Infinity, collection = "records" } = more;
  const content = collection === "leases" ? null : ({ kind: "buffer", value } as const);
  return { operation: { type: "write", collection, key, content, ttlMs }, outcome };
}

const remove = (key: string, outcome: Forged["outcome"] = "removed"): Draft => ({
  operation: { type: "remove", collection: "records", key },
  outcome,
});

const removeAll = (prefix: string): Draft => ({
  operation: { type: "remove all", prefix },
  outcome: "removed",
});

const pageOf = (
  rows: readonly (ListedRow | string)[],
  more: Partial<ListedPage> = {},
): ListedPage => ({
  rows: rows.map((row) => (typeof row === "string" ? { key: row } : row)),
  cursor: null,
  fault: null,
  ...more,
});

function list(
  pages: readonly ListedPage[] | readonly (ListedRow | string)[],
  more: {
    readonly by?: ListingName;
    readonly collection?: Collection;
    readonly prefix?: string;
    readonly isComplete?: boolean;
    readonly brokenOff?: string | null;
  } = {},
): Draft {
  const { by = "SCAN", collection = "records", prefix = "", brokenOff = null } = more;
  const isPage = (page: ListedPage | ListedRow | string): page is ListedPage =>
    typeof page === "object" && "rows" in page;
  const all = pages.every(isPage) ? pages : [pageOf(pages as readonly (ListedRow | string)[])];
  const isComplete = more.isComplete ?? brokenOff === null;
  return {
    operation: { type: "list", collection, prefix, by },
    outcome: { pages: all, isComplete, brokenOff },
  };
}

const callsOf = (drafts: readonly Draft[]): Forged[] =>
  drafts.map((draft, i) => ({ begunMs: 10 * i + 1, endedMs: 10 * i + 6, ...draft }));

const faultsOf = (drafts: readonly Draft[], terms = termsOf()): string[] =>
  checkCollections(forge(callsOf(drafts)), terms).map(({ message }) => message);

describe("the checker of collections", () => {
  it.each<[string, readonly Draft[], Partial<CollectionTerms>?]>([
    ["all that was written", [write("a", "1"), write("b", "2"), list(["a", "b"])]],
    ["nothing of what was removed", [write("a", "1"), remove("a"), list([])]],
    [
      "nothing of a removed prefix",
      [write("a1", "1"), write("b", "2"), removeAll("a"), list(["b"])],
    ],
    [
      "a record written after its prefix was removed",
      [removeAll("a"), write("a1", "1"), list(["a1"])],
    ],
    [
      "what another prefix has left out",
      [write("a", "1"), write("b", "2"), list(["b"], { prefix: "b" })],
    ],
    [
      "either of two values while one takes the place of the other",
      [
        { ...write("a", "old"), begunMs: 1, endedMs: 2 },
        { ...write("a", "new"), begunMs: 10, endedMs: 30 },
        { ...list([{ key: "a", value: "old" }]), begunMs: 11, endedMs: 20 },
        { ...list([{ key: "a", value: "new" }]), begunMs: 12, endedMs: 21 },
      ],
    ],
    [
      "an unknown write, or none of it",
      [write("a", "1", "unknown"), list([]), list([{ key: "a", value: "1" }])],
    ],
    [
      "a listing that broke off, without all that is behind",
      [write("a", "1"), write("b", "2"), list(["a"], { brokenOff: "overloaded" })],
    ],
    [
      "a record whose TTL has passed no longer",
      [write("a", "1", "written", { ttlMs: 4 }), list([])],
    ],
    [
      "a table cursor where shards have many records, and keys in any order then",
      [
        write("a", "1"),
        write("b", "2"),
        list([pageOf(["b"], { cursor: TABLE_CURSOR }), pageOf(["a"])]),
      ],
      { isOrdered: false },
    ],
    [
      "an export that goes shard by shard",
      [write("a", "1"), write("B", "2"), write("C", "3"), list(["a", "B", "C"], { by: "EXPORT" })],
    ],
    [
      "a lease, and its semaphore while the lease lasts",
      [
        write("s/1", "", "written", { collection: "leases" }),
        list(["s/1"], { by: "HOLDERS", collection: "leases", prefix: "s/" }),
        list(["s"], { by: "SEMAPHORES", collection: "semaphores" }),
      ],
    ],
    [
      "leases in the order of their ids",
      [
        write("s/2", "", "written", { collection: "leases" }),
        write("t/1", "", "written", { collection: "leases" }),
        write("t/2", "", "written", { collection: "leases" }),
        list(["t/1", "s/2", "t/2"], { by: "EXPORT_LEASES", collection: "leases" }),
      ],
    ],
    [
      "pairs in the order of their sizes",
      [
        write("long/r", "1", "written", { collection: "pairs" }),
        write("z/r", "2", "written", { collection: "pairs" }),
        list(["z/r", "long/r"], { by: "EXPORT", collection: "pairs" }),
      ],
    ],
    [
      "a page that a release before refuses",
      [write("a", "1"), list([], { brokenOff: "after_invalid" })],
      { isToday: false },
    ],
  ])("accepts %s", (_, drafts, terms = {}) => {
    expect(faultsOf(drafts, termsOf(terms))).toEqual([]);
  });

  it.each<[string, RegExp, readonly Draft[], Partial<CollectionTerms>?]>([
    [
      "a record that is missing",
      /"a" was there all the while, but not listed/,
      [write("a", "1"), list([])],
    ],
    ["a record listed twice", /listed more than once/, [write("a", "1"), list(["a", "a"])]],
    [
      "a record on two pages",
      /listed more than once/,
      [write("a", "1"), list([pageOf(["a"], { cursor: TABLE_CURSOR }), pageOf(["a"])])],
      { isOrdered: false },
    ],
    [
      "a record that was never written",
      /absent all the while/,
      [write("a", "1"), list(["a", "b"])],
    ],
    [
      "a record that was removed",
      /absent all the while/,
      [write("a", "1"), remove("a"), list(["a"])],
    ],
    [
      "a record of a removed prefix",
      /absent all the while/,
      [write("a1", "1"), removeAll("a"), list(["a1"])],
    ],
    [
      "a record past its TTL",
      /absent all the while/,
      [write("a", "1", "written", { ttlMs: 4 }), list([]), list(["a"])],
    ],
    [
      "a record of another prefix",
      /not what was asked for/,
      [write("a", "1"), list(["a"], { prefix: "b" })],
    ],
    [
      "a value that was never written",
      /was not written/,
      [write("a", "1"), list([{ key: "a", value: "2" }])],
    ],
    [
      "a value that another has replaced",
      /was not written/,
      [write("a", "1"), write("a", "2"), list([{ key: "a", value: "1" }])],
    ],
    [
      "a buffer shown as a counter",
      /was not written/,
      [write("a", "1"), list([{ key: "a", kind: "counter" }])],
    ],
    [
      "a length that is wrong",
      /was not written/,
      [write("a", "12"), list([{ key: "a", bytes: 3 }])],
    ],
    [
      "rows that are not in order",
      /not in the order/,
      [write("a", "1"), write("b", "2"), list(["b", "a"])],
    ],
    [
      "leases in the order of their names",
      /not in the order/,
      [
        write("s/2", "", "written", { collection: "leases" }),
        write("t/1", "", "written", { collection: "leases" }),
        list(["s/2", "t/1"], { by: "EXPORT_LEASES", collection: "leases" }),
      ],
    ],
    [
      "a page that ends with a key, and is not in order",
      /not in the order/,
      [
        write("a", "1"),
        write("b", "2"),
        list([pageOf(["b", "a"], { cursor: Uint8Array.of(97) }), pageOf([])]),
      ],
      { isOrdered: false },
    ],
    [
      "the order of a table, where shards have few records",
      /follows the order of a table/,
      [write("a", "1"), list([pageOf(["a"], { cursor: TABLE_CURSOR }), pageOf([])])],
    ],
    [
      "a shard of an export in two places",
      /a shard is in it in two places/,
      [write("A", "1"), write("b", "2"), write("C", "3"), list(["A", "b", "C"], { by: "EXPORT" })],
    ],
    ["a page that is too long", /has 3 rows/, [list([pageOf([], { fault: "has 3 rows, not 2" })])]],
    [
      "a cursor that the server does not know",
      /after_invalid/,
      [list([], { brokenOff: "after_invalid" })],
    ],
    ["a key that is lost as a cursor", /cursor_lost/, [list([], { brokenOff: "cursor_lost" })]],
    [
      "a semaphore that is missing while it is held",
      /there all the while/,
      [
        write("s/1", "", "written", { collection: "leases" }),
        list([], { by: "SEMAPHORES", collection: "semaphores" }),
      ],
    ],
    [
      "a lease that has ended",
      /absent all the while/,
      [
        write("s/1", "", "written", { collection: "leases", ttlMs: 3 }),
        list([], { by: "HOLDERS", collection: "leases", prefix: "s/" }),
        list(["s/1"], { by: "HOLDERS", collection: "leases", prefix: "s/" }),
      ],
    ],
  ])("refuses %s", (_, fault, drafts, terms = {}) => {
    const faults = faultsOf(drafts, termsOf(terms));
    expect(faults).toEqual([expect.stringMatching(fault)]);
  });

  it("lets a record be there again behind a removal of its prefix that came after its end, where the shard's clock goes back", () => {
    const back = new Facts(new ClockHistory());
    back.clocks.set("Shard 1", 10, 2000);
    back.clocks.set("Shard 1", 30, -2000);
    const record = { ...write("a", "1", "written", { ttlMs: 1000 }), begunMs: 1, endedMs: 2 };
    const again = { ...list(["a"]), begunMs: 40, endedMs: 45 };
    const removedAt = (ms: number): readonly Draft[] => [
      record,
      { ...removeAll("a"), begunMs: ms, endedMs: ms + 1 },
      again,
    ];
    expect(faultsOf(removedAt(20), termsOf({ facts: back }))).toEqual([]);
    expect(faultsOf(removedAt(20))).toEqual([expect.stringMatching(/absent all the while/)]);
    // It was there still, so its removal has a row; and nothing goes back after the last one.
    for (const ms of [5, 32]) {
      expect(faultsOf(removedAt(ms), termsOf({ facts: back }))).toHaveLength(1);
    }
  });

  it("lets a second copy of a shard show what there was when it was cut off", () => {
    const facts = new Facts(new ClockHistory());
    const drafts = [write("a", "1"), remove("a"), list(["a"])];
    const asOf = { tick: 1, ms: 8 };
    facts.addStale({ object: "Shard 1", asOf, until: { tick: 100, ms: 100 } });
    expect(faultsOf(drafts, termsOf({ facts }))).toEqual([]);
    expect(faultsOf(drafts)).toHaveLength(1);
  });
});
