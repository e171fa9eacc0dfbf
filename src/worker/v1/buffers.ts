/** Routes of buffers. A value can travel as text or base64 in JSON, or as raw bytes. */
import * as operations from "../../wire/edge/operations.ts";
import { executeOne } from "../execute.ts";
import { recordRoutes } from "./records.ts";
import { nothing, ok, present, route } from "./route.ts";
import { compareAndSetAnswer, compareAndSetBody, rawQuery, setBody } from "./schemas/buffers.ts";
import { components } from "./schemas/components.ts";
import { textFields } from "../text.ts";

const tag = "buffers";

export const bufferRoutes = [
  route({
    method: "PUT",
    path: "/v1/buffers/{key}",
    id: "setBuffer",
    tag,
    summary: "Set a buffer",
    description:
      "Creates the buffer or replaces its value. To send raw bytes, use `application/octet-stream` with `?ttlMs=`; any other body is read as JSON.",
    scopes: ["write"],
    once: "one",
    body: setBody,
    rawQuery,
    answers: { 204: { description: "The buffer was set." } },
    errors: ["kind_mismatch", "shard_full", "frame_too_large", "value_invalid"],
    example: { url: "/v1/buffers/page", body: { value: "hello", ttlMs: 60_000 } },
    answer: async ({ caller, path, body, once }) => {
      // The schema has checked that exactly one of them is there; both are bytes by now.
      const value = (body.value ?? body.valueBase64)!;
      await executeOne(caller, operations.set(path.key, value, { ttlMs: body.ttlMs, ...once }));
      return nothing;
    },
  }),
  route({
    method: "GET",
    path: "/v1/buffers/{key}",
    id: "getBuffer",
    tag,
    summary: "Read a buffer",
    description: "`Accept: application/octet-stream` returns the raw bytes.",
    scopes: ["read"],
    answers: { 200: { description: "The buffer.", schema: components.Buffer, isRaw: true } },
    errors: ["key_absent", "kind_mismatch"],
    example: { url: "/v1/buffers/page" },
    answer: async ({ caller, path, isRawWanted }) => {
      const buffer = await executeOne(caller, operations.get(path.key));
      const { value, ...remaining } = present(buffer, "buffer");
      return isRawWanted
        ? { status: 200, bytes: value }
        : ok({ ...textFields("value", value), ...remaining });
    },
  }),
  ...recordRoutes("buffer"),
  route({
    method: "POST",
    path: "/v1/buffers/{key}/compare-and-set",
    id: "compareAndSetBuffer",
    tag,
    summary: "Set or remove a buffer if it holds an expected value",
    scopes: ["read", "write"],
    once: "one",
    body: compareAndSetBody,
    answers: {
      200: {
        description: "Whether it was applied, and otherwise the current value.",
        schema: compareAndSetAnswer,
      },
    },
    errors: ["kind_mismatch", "shard_full", "frame_too_large", "value_invalid", "expected_invalid"],
    example: {
      url: "/v1/buffers/page/compare-and-set",
      body: { expected: "hello", value: "world", ttlMs: 60_000 },
    },
    answer: async ({ caller, path, body, once }) => {
      const { expected, expectedBase64, value, valueBase64, ttlMs } = body;
      const options = {
        // Null is a value here: no record. The schema refuses a field that is missing.
        expected: expectedBase64 ?? expected ?? null,
        value: valueBase64 ?? value ?? null,
        ...(ttlMs === undefined ? {} : { ttlMs }),
        ...once,
      };
      const { applied, current } = await executeOne(
        caller,
        operations.compareAndSet(path.key, options),
      );
      if (applied) return ok({ applied });
      return ok({
        applied,
        ...(current === null ? { current } : textFields("current", current)),
      });
    },
  }),
];
