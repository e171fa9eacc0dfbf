/** The interface that describes the operations, beside the table that makes them. */
import { describe, expect, expectTypeOf, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import type { CallOptions } from "../../src/client/calls/call.ts";
import type { OperationCalls } from "../../src/wire/edge/operation-calls.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { OperationName, ResultOf, ThrottrService } from "../../src/wire/edge/service.ts";

type Table = typeof operations;
type CallsOfTable = {
  [Name in OperationName]: (...given: Parameters<Table[Name]>) => Promise<ResultOf<Name>>;
};

describe("OperationCalls", () => {
  it("OperationCalls has each operation of the table with the same arguments and result, and no other", () => {
    expectTypeOf<{
      [Name in keyof OperationCalls]: OperationCalls[Name];
    }>().toEqualTypeOf<CallsOfTable>();
  });

  it("OperationCalls are what a service binding and a client offer", () => {
    expectTypeOf<ThrottrService>().toExtend<OperationCalls>();
    expectTypeOf<ThrottrClient>().toExtend<OperationCalls<CallOptions, [options?: CallOptions]>>();
    expectTypeOf<ThrottrClient>().toExtend<Pick<ThrottrService, "batch" | "limitMany">>();
    const methods = Object.getOwnPropertyNames(ThrottrClient.prototype);
    expect(methods).toEqual(expect.arrayContaining(Object.keys(operations)));
  });
});
