/** Operations on semaphores: what is asked of the server, and how its answers are read. */
import { describe, expect, it } from "vitest";
import { leaseIdOf, withLeaseId } from "../../src/wire/edge/lease-id.ts";
import { newUuid, uuidOf } from "../../src/wire/edge/uuid.ts";
import type { Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import {
  acquire,
  bytesOf,
  concat,
  exportLeasesFrame,
  hex,
  holders,
  idOf,
  inspect,
  KEEP,
  leaseKey,
  release,
  renew,
  REPLACE,
  restoreLease,
  semaphores,
  ttlMs,
  u16,
  u32,
  u64,
  uuidOfNumber,
} from "../support/frames/index.ts";

const ID = uuidOfNumber(6);
const DAY_MS = 86_400_000;
const U32_MAX = 2 ** 32 - 1;

function codeOf(make: () => unknown): string {
  try {
    make();
  } catch (error) {
    return (error as { code: string }).code;
  }
  return "none";
}

const answer = <Result>(operation: Operation<Result>, body: Uint8Array): Result =>
  operation.read(concat([Uint8Array.of(1), u32(body.length), body]));

describe("operations on semaphores", () => {
  it.each<[string, Operation<unknown>, Uint8Array]>([
    [
      "acquire",
      operations.acquire("a", { maximum: 3, ttlMs: 9, leaseId: ID }),
      acquire("a", idOf(6), 1, 3, ttlMs(9)),
    ],
    [
      "acquire, of the most there is",
      operations.acquire(Uint8Array.of(0xff), {
        resources: U32_MAX,
        maximum: U32_MAX,
        ttlMs: DAY_MS,
        leaseId: ID.toUpperCase(),
      }),
      acquire("\xff", idOf(6), U32_MAX, U32_MAX, ttlMs(DAY_MS)),
    ],
    ["renew", operations.renew("a", ID, { ttlMs: 1 }), renew("a", idOf(6), ttlMs(1))],
    ["release", operations.release("a", ID), release("a", idOf(6))],
    ["inspectSemaphore", operations.inspectSemaphore("a"), inspect("a")],
    ["semaphores", operations.semaphores(), semaphores("", 1000)],
    [
      "semaphores, of a page",
      operations.semaphores({ prefix: "p", limit: 7, cursor: "x".repeat(65_535) }),
      semaphores("p", 7, "x".repeat(65_535)),
    ],
    ["holders", operations.holders("a"), holders("a", 1000)],
    [
      "holders, of a page",
      operations.holders("a", { limit: 1, cursor: new Uint8Array(17) }),
      holders("a", 1, new Uint8Array(17)),
    ],
  ])(
    "the operation %s is a frame that may be repeated",
    (_, { frame, isRepeatable, type }, expected) => {
      expect(hex(frame)).toBe(hex(expected));
      expect(type).toBe(expected[0]);
      expect(isRepeatable).toBe(true);
    },
  );

  it("a lease is read with its resources and its end, rounded up", () => {
    const { acquire: acquireOne, renew: renewOne } = operations;
    const body = concat([
      Uint8Array.of(1),
      u32(5),
      u64(1_700_000_000_000_000_001n),
      u64(1_000_001n),
    ]);
    const lease = {
      leaseId: ID,
      name: "a",
      resources: 5,
      expiresAtMs: 1_700_000_000_001,
      ttlMs: 2,
    };
    const acquiring = acquireOne("a", { maximum: 9, resources: 5, ttlMs: 2, leaseId: ID });
    expect(answer(acquiring, body)).toEqual(lease);
    expect(answer(acquiring, Uint8Array.of(0))).toBe(null);
    expect(answer(renewOne("a", ID, { ttlMs: 2 }), body)).toEqual(lease);
    expect(answer(renewOne("a", ID, { ttlMs: 2 }), Uint8Array.of(0))).toBe(null);
    expect(answer(operations.release("a", ID), Uint8Array.of(1))).toBe(true);
    expect(answer(operations.release("a", ID), Uint8Array.of(0))).toBe(false);
  });

  it("the use of semaphores is read, in pages too", () => {
    const { inspectSemaphore } = operations;
    const state = concat([u32(3), u32(U32_MAX)]);
    const told = { consumption: 3, mostHeld: U32_MAX, maximum: U32_MAX };
    expect(answer(inspectSemaphore("a"), concat([Uint8Array.of(1), state]))).toEqual(told);
    expect(answer(inspectSemaphore("a"), Uint8Array.of(0))).toBe(null);
    const long = "x".repeat(300);
    const rows = ["a", long].map((name) => concat([u16(name.length), state, bytesOf(name)]));
    const listed = ["a", long].map((name) => ({ name: bytesOf(name), ...told }));
    expect(answer(operations.semaphores(), concat([Uint8Array.of(1), ...rows]))).toEqual({
      semaphores: listed,
      cursor: null,
    });
    expect(answer(operations.semaphores(), concat([Uint8Array.of(0), ...rows]))).toEqual({
      semaphores: listed,
      cursor: bytesOf(long),
    });
    expect(answer(operations.semaphores(), Uint8Array.of(1))).toEqual({
      semaphores: [],
      cursor: null,
    });
  });

  it("the holders of a semaphore are read", () => {
    const row = (kind: number, number: number, endNs: bigint): Uint8Array =>
      concat([u32(number), u64(endNs), Uint8Array.of(kind), idOf(number)]);
    const rows = [row(1, 2, 0n), row(2, 3, 5_000_000n)];
    const listed = [
      { kind: "connection", id: uuidOfNumber(2), resources: 2, expiresAtMs: null },
      { kind: "lease", id: uuidOfNumber(3), resources: 3, expiresAtMs: 5 },
    ];
    expect(answer(operations.holders("a"), concat([Uint8Array.of(1), ...rows]))).toEqual({
      holders: listed,
      cursor: null,
    });
    expect(answer(operations.holders("a"), concat([Uint8Array.of(0), ...rows])).cursor).toEqual(
      concat([Uint8Array.of(2), idOf(3)]),
    );
  });

  it.each<[string, () => unknown]>([
    ["name_invalid", () => operations.inspectSemaphore("")],
    ["name_invalid", () => operations.inspectSemaphore("x".repeat(256))],
    ["name_invalid", () => operations.release("\ud800", ID)],
    ["name_invalid", () => operations.holders(5 as never)],
    ["resources_invalid", () => acquiring({ resources: 0 })],
    ["resources_invalid", () => acquiring({ resources: 1.5 })],
    ["resources_invalid", () => acquiring({ resources: U32_MAX + 1 })],
    ["maximum_invalid", () => acquiring({ resources: 3, maximum: 2 })],
    ["maximum_invalid", () => acquiring({ maximum: undefined as never })],
    ["maximum_invalid", () => acquiring({ maximum: U32_MAX + 1 })],
    ["maximum_invalid", () => acquiring({ maximum: 5n as never })],
    ["ttl_invalid", () => acquiring({ ttlMs: 0 })],
    ["ttl_invalid", () => acquiring({ ttlMs: DAY_MS + 1 })],
    ["ttl_invalid", () => acquiring({ ttlMs: 0.5 })],
    ["ttl_invalid", () => operations.renew("a", ID, { ttlMs: Infinity })],
    ["lease_invalid", () => acquiring({ leaseId: undefined })],
    ["lease_invalid", () => acquiring({ leaseId: "" })],
    ["lease_invalid", () => operations.renew("a", ID.slice(1), { ttlMs: 1 })],
    ["lease_invalid", () => operations.release("a", ID.replace("-", "0"))],
    ["lease_invalid", () => operations.release("a", ID.replace("0", "g"))],
    ["limit_invalid", () => operations.semaphores({ limit: 0 })],
    ["limit_invalid", () => operations.holders("a", { limit: 1001 })],
    ["after_invalid", () => operations.semaphores({ cursor: new Uint8Array(65_536) })],
    ["after_invalid", () => operations.holders("a", { cursor: new Uint8Array(256) })],
    ["prefix_invalid", () => operations.semaphores({ prefix: "x".repeat(256) })],
  ])("an operation on semaphores throws %s", (code, make) => {
    expect(codeOf(make)).toBe(code);
  });

  it("a cursor that is refused is called by the name of the option", () => {
    const wrong = { cursor: null as never };
    const refusal = "after_invalid: cursor: expected text or a Uint8Array, got null";
    expect(() => operations.semaphores(wrong)).toThrow(refusal);
    expect(() => operations.holders("a", wrong)).toThrow(refusal);
    expect(() => operations.list(wrong)).toThrow(refusal);
  });
});

describe("operations that move leases", () => {
  const LEASE = { name: "gpu", leaseId: ID, resources: 3, expiresAtMs: 1_700_000_000_123 };
  const ROW = {
    id: String.fromCharCode(...leaseIdOf(ID)),
    name: "gpu",
    resources: 3,
    endsNs: 1_700_000_000_123_000_000n,
  };

  it("operations that move leases are the commands that the protocol describes", () => {
    expect(hex(operations.restoreLease(LEASE).frame)).toBe(hex(restoreLease(ROW, KEEP)));
    expect(hex(operations.restoreLease(LEASE, { policy: "replace" }).frame)).toBe(
      hex(restoreLease(ROW, REPLACE)),
    );
    expect(hex(operations.exportLeases().frame)).toBe(hex(exportLeasesFrame()));
    const asked = { prefix: "g", limit: 7, bytesMax: 100 };
    expect(hex(operations.exportLeases({ ...asked, cursor: LEASE }).frame)).toBe(
      hex(exportLeasesFrame({ ...asked, after: leaseKey(ROW) })),
    );
    expect(operations.exportLeases().isRepeatable).toBe(true);
  });

  it.each<[string, () => unknown]>([
    ["name_invalid", () => operations.restoreLease({ ...LEASE, name: "" })],
    ["name_invalid", () => operations.restoreLease({ ...LEASE, name: "x".repeat(256) })],
    ["lease_invalid", () => operations.restoreLease({ ...LEASE, leaseId: "gpu" })],
    ["resources_invalid", () => operations.restoreLease({ ...LEASE, resources: 0 })],
    ["resources_invalid", () => operations.restoreLease({ ...LEASE, resources: 2 ** 32 })],
    ["expires_at_ms_invalid", () => operations.restoreLease({ ...LEASE, expiresAtMs: -1 })],
    ["expires_at_ms_invalid", () => operations.restoreLease({ ...LEASE, expiresAtMs: 0.5 })],
    ["expires_at_ms_invalid", () => operations.restoreLease({ ...LEASE, expiresAtMs: 2 ** 53 })],
    ["policy_invalid", () => operations.restoreLease(LEASE, { policy: "all" as "keep" })],
    ["argument_invalid", () => operations.restoreLease(undefined as never)],
    ["limit_invalid", () => operations.exportLeases({ limit: 0 })],
    ["limit_invalid", () => operations.exportLeases({ limit: 10_001 })],
    ["bytes_max_invalid", () => operations.exportLeases({ bytesMax: 2 ** 20 + 1 })],
    ["prefix_invalid", () => operations.exportLeases({ prefix: "x".repeat(256) })],
    ["lease_invalid", () => operations.exportLeases({ cursor: { name: "a", leaseId: "" } })],
    ["name_invalid", () => operations.exportLeases({ cursor: { name: "", leaseId: ID } })],
  ])("an operation that moves leases throws %s (%#)", (code, make) => {
    expect(codeOf(make)).toBe(code);
  });
});

function acquiring(options: Partial<Parameters<typeof operations.acquire>[1]>): unknown {
  return operations.acquire("a", { maximum: 5, ttlMs: 5, leaseId: ID, ...options });
}

describe("lease ids", () => {
  it("lease ids are UUIDs", () => {
    const id = "0d9c8f52-6a0e-4d5c-9d2b-3f6a1c7e8b40";
    expect(hex(leaseIdOf(id))).toBe(id.replaceAll("-", ""));
    expect(uuidOf(leaseIdOf(id.toUpperCase()))).toBe(id);
  });

  it("lease ids come from random bytes where randomUUID is missing", () => {
    const filled = (byte: number) => (bytes: Uint8Array) => bytes.fill(byte);
    expect(newUuid(filled(0))).toBe("00000000-0000-4000-8000-000000000000");
    expect(newUuid(filled(255))).toBe("ffffffff-ffff-4fff-bfff-ffffffffffff");
    expect(withLeaseId({ leaseId: ID }, filled(0))).toEqual({ leaseId: ID });
    expect(withLeaseId<{ ttlMs: number; leaseId?: string }>({ ttlMs: 1 }, filled(0))).toEqual({
      ttlMs: 1,
      leaseId: newUuid(filled(0)),
    });
  });
});
