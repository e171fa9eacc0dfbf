/** Routes of semaphores and their leases. Over HTTP only leases hold a semaphore: a request has no lasting connection. */
import { binaryString } from "../../wire/bytes.ts";
import * as operations from "../../wire/edge/operations.ts";
import type { Lease } from "../../wire/edge/semaphores.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { executeOne } from "../execute.ts";
import { withNewLeaseId } from "../new-ids.ts";
import { cursorText, textFields } from "../text.ts";
import { nothing, ok, route } from "./route.ts";
import { components } from "./schemas/components.ts";
import {
  holdersAnswer,
  holdersQuery,
  leaseBody,
  renewBody,
  semaphoresAnswer,
  semaphoresQuery,
} from "./schemas/semaphores.ts";

const tag = "semaphores";
/** One lease. Its id is all that proves who holds it. */
const leasePath = "/v1/semaphores/{name}/leases/{lease}";
/** The lease of the examples. */
const exampleId = "0d9c8f52-6a0e-4d5c-9d2b-3f6a1c7e8b40";

/** A lease, with the name of its semaphore, so that the answer alone is enough to renew it. */
const inJson = ({ leaseId, resources, ttlMs, expiresAtMs }: Lease, name: Uint8Array): object => ({
  leaseId,
  ...textFields("name", name),
  resources,
  ttlMs,
  expiresAtMs,
});

/** The id in the path as text. The operation checks it: other bytes than a UUID's are `lease_invalid`. */
const idOf = ({ lease }: { lease: Uint8Array }): string => binaryString(lease, 0, lease.length);

/** A lease that has ended and one that never was look alike: a shard forgets a lease with its end. */
const leaseAbsent = (): ThrottrError =>
  new ThrottrError("lease_absent", "the lease does not exist or has ended");

export const semaphoreRoutes = [
  route({
    method: "GET",
    path: "/v1/semaphores",
    id: "listSemaphores",
    tag,
    summary: "List semaphores in the order of their names",
    description:
      "A page with long names can be shorter than `limit`. A semaphore without holders stays listed for up to a day.",
    scopes: ["read"],
    query: semaphoresQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: semaphoresAnswer } },
    example: { url: "/v1/semaphores?prefix=gpu&limit=100" },
    answer: async ({ caller, query }) => {
      const page = await executeOne(caller, operations.semaphores(query));
      const semaphores = page.semaphores.map(({ name, ...state }) => ({
        ...textFields("name", name),
        ...state,
      }));
      return ok({ semaphores, cursor: cursorText(page.cursor) });
    },
  }),
  route({
    method: "GET",
    path: "/v1/semaphores/{name}",
    id: "inspectSemaphore",
    tag,
    summary: "Show how much of a semaphore is in use",
    scopes: ["read"],
    answers: { 200: { description: "The semaphore.", schema: components.Semaphore } },
    errors: ["semaphore_absent"],
    example: { url: "/v1/semaphores/gpu" },
    answer: async ({ caller, path }) => {
      const state = await executeOne(caller, operations.inspectSemaphore(path.name));
      if (state !== null) return ok(state);
      throw new ThrottrError(
        "semaphore_absent",
        "the semaphore has no holders, and had none lately",
      );
    },
  }),
  route({
    method: "GET",
    path: "/v1/semaphores/{name}/holders",
    id: "listHolders",
    tag,
    summary: "List the holders of a semaphore",
    description: "The list is empty if there is no such semaphore.",
    scopes: ["admin"],
    query: holdersQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: holdersAnswer } },
    example: { url: "/v1/semaphores/gpu/holders?limit=100" },
    answer: async ({ caller, path, query }) => {
      const { holders, cursor } = await executeOne(caller, operations.holders(path.name, query));
      return ok({ holders, cursor: cursorText(cursor) });
    },
  }),
  route({
    method: "POST",
    path: "/v1/semaphores/{name}/leases",
    id: "acquireLease",
    tag,
    summary: "Acquire resources of a semaphore for a time",
    description:
      "A request with a `leaseId` can be repeated safely: the lease is renewed and does not hold twice. All holders together may hold up to `maximum`, which each request names; the server does not store it.",
    scopes: ["write"],
    body: leaseBody,
    answers: { 201: { description: "The lease.", schema: components.Lease } },
    errors: ["semaphore_unavailable", "maximum_invalid", "lease_conflict", "shard_full"],
    example: { url: "/v1/semaphores/gpu/leases", body: { maximum: 4, ttlMs: 30_000 } },
    answer: async ({ caller, path, body }) => {
      const { leaseId: given, ...rest } = body;
      // The id is made here and not by the shard: the frame then says all, however often it is executed.
      const options = withNewLeaseId(given === undefined ? rest : { ...rest, leaseId: given });
      const lease = await executeOne(caller, operations.acquire(path.name, options));
      if (lease !== null) return { status: 201, json: inJson(lease, path.name) };
      throw new ThrottrError(
        "semaphore_unavailable",
        "not enough resources are free: the call would exceed the maximum; nothing was changed",
      );
    },
  }),
  route({
    method: "PATCH",
    path: leasePath,
    id: "renewLease",
    tag,
    summary: "Renew a lease",
    scopes: ["write"],
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
    summary: "Release a lease",
    description: "A repeated request, sent because the answer was lost, gets `lease_absent`.",
    scopes: ["write"],
    answers: { 204: { description: "The lease was released." } },
    errors: ["lease_absent"],
    example: { url: `/v1/semaphores/gpu/leases/${exampleId}` },
    answer: async ({ caller, path }) => {
      const isReleased = await executeOne(caller, operations.release(path.name, idOf(path)));
      if (!isReleased) throw leaseAbsent();
      return nothing;
    },
  }),
];
