/** Routes of semaphores, and of the leases that hold them. */
import { binaryString } from "../../wire/bytes.ts";
import * as operations from "../../wire/edge/operations.ts";
import type { Lease } from "../../wire/edge/semaphores.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { executeOne } from "../execute.ts";
import { withNewLeaseId } from "../lease-id.ts";
import { textFields, urlBase64Of } from "../text.ts";
import { nothing, ok, route } from "./route.ts";
import { components } from "./schemas/components.ts";
import { noQuery } from "./schemas/parts.ts";
import {
  holdersAnswer,
  holdersQuery,
  leaseBody,
  renewBody,
  semaphoresAnswer,
  semaphoresQuery,
} from "./schemas/semaphores.ts";

const tag = "semaphores";
const leasePath = "/v1/semaphores/{name}/leases/{lease}";
/** Of the examples. */
const exampleId = "0d9c8f52-6a0e-4d5c-9d2b-3f6a1c7e8b40";

const cursorOf = (cursor: Uint8Array | null): string | null =>
  cursor === null ? null : urlBase64Of(cursor);

const inJson = ({ leaseId, resources, ttlMs, expiresAtMs }: Lease, name: Uint8Array): object => ({
  leaseId,
  ...textFields("name", name),
  resources,
  ttlMs,
  expiresAtMs,
});

const idOf = ({ lease }: { lease: Uint8Array }): string => binaryString(lease, 0, lease.length);

const leaseAbsent = (): ThrottrError =>
  new ThrottrError("lease_absent", "the semaphore has no such lease, or it has ended");

export const semaphoreRoutes = [
  route({
    method: "GET",
    path: "/v1/semaphores",
    id: "listSemaphores",
    tag,
    summary: "List semaphores in the order of their names",
    description:
      "Long names make pages shorter than `limit`. One that nobody holds is listed until an interval has passed.",
    scopes: ["read"],
    query: semaphoresQuery,
    body: undefined,
    answers: { 200: { description: "A page; no snapshot.", schema: semaphoresAnswer } },
    errors: [],
    example: { url: "/v1/semaphores?prefix=gpu&limit=100" },
    answer: async ({ caller, query }) => {
      const page = await executeOne(caller, operations.semaphores(query));
      const semaphores = page.semaphores.map(({ name, ...state }) => ({
        ...textFields("name", name),
        ...state,
      }));
      return ok({ semaphores, cursor: cursorOf(page.cursor) });
    },
  }),
  route({
    method: "GET",
    path: "/v1/semaphores/{name}",
    id: "inspectSemaphore",
    tag,
    summary: "What is in use of a semaphore",
    scopes: ["read"],
    query: noQuery,
    body: undefined,
    answers: { 200: { description: "What is in use.", schema: components.Semaphore } },
    errors: ["semaphore_absent"],
    example: { url: "/v1/semaphores/gpu" },
    answer: async ({ caller, path }) => {
      const state = await executeOne(caller, operations.inspectSemaphore(path.name));
      if (state !== null) return ok(state);
      throw new ThrottrError(
        "semaphore_absent",
        "nothing of the semaphore is held, nor was lately",
      );
    },
  }),
  route({
    method: "GET",
    path: "/v1/semaphores/{name}/holders",
    id: "listHolders",
    tag,
    summary: "List who holds a semaphore",
    description: "Nobody, where there is no such semaphore.",
    scopes: ["admin"],
    query: holdersQuery,
    body: undefined,
    answers: { 200: { description: "A page; no snapshot.", schema: holdersAnswer } },
    errors: [],
    example: { url: "/v1/semaphores/gpu/holders?limit=100" },
    answer: async ({ caller, path, query }) => {
      const { holders, cursor } = await executeOne(caller, operations.holders(path.name, query));
      return ok({ holders, cursor: cursorOf(cursor) });
    },
  }),
  route({
    method: "POST",
    path: "/v1/semaphores/{name}/leases",
    id: "acquireLease",
    tag,
    summary: "Hold resources of a semaphore for a time",
    description:
      "A request with a `leaseId` may be sent again: the same lease holds no more than once, and is renewed. What all hold together may be up to `maximum`, which is told with each request and not kept.",
    scopes: ["write"],
    query: noQuery,
    body: leaseBody,
    answers: { 201: { description: "The lease.", schema: components.Lease } },
    errors: ["semaphore_unavailable", "maximum_invalid", "lease_conflict", "shard_full"],
    example: { url: "/v1/semaphores/gpu/leases", body: { maximum: 4, ttlMs: 30_000 } },
    answer: async ({ caller, path, body }) => {
      const { leaseId: given, ...rest } = body;
      const options = withNewLeaseId(given === undefined ? rest : { ...rest, leaseId: given });
      const lease = await executeOne(caller, operations.acquire(path.name, options));
      if (lease !== null) return { status: 201, json: inJson(lease, path.name) };
      throw new ThrottrError(
        "semaphore_unavailable",
        "not enough is free: the maximum would be exceeded; nothing was changed",
      );
    },
  }),
  route({
    method: "PATCH",
    path: leasePath,
    id: "renewLease",
    tag,
    summary: "Let a lease end later",
    scopes: ["write"],
    query: noQuery,
    body: renewBody,
    answers: { 200: { description: "The lease.", schema: components.Lease } },
    errors: ["lease_absent"],
    example: { url: `/v1/semaphores/gpu/leases/${exampleId}`, body: { ttlMs: 30_000 } },
    answer: async ({ caller, path, body }) => {
      const lease = await executeOne(caller, operations.renew(path.name, idOf(path), body));
      if (lease === null) throw leaseAbsent();
      return ok(inJson(lease, path.name));
    },
  }),
  route({
    method: "DELETE",
    path: leasePath,
    id: "releaseLease",
    tag,
    summary: "Give back what a lease holds",
    description:
      "A request that is sent again because its answer was lost is answered `lease_absent`.",
    scopes: ["write"],
    query: noQuery,
    body: undefined,
    answers: { 204: { description: "It is given back." } },
    errors: ["lease_absent"],
    example: { url: `/v1/semaphores/gpu/leases/${exampleId}` },
    answer: async ({ caller, path }) => {
      const isReleased = await executeOne(caller, operations.release(path.name, idOf(path)));
      if (!isReleased) throw leaseAbsent();
      return nothing;
    },
  }),
];
