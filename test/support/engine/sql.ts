/** SQL of an object, as its journal uses it, over a database in memory. */
import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { Sql, SqlRows } from "../../../src/objects/shard/shard-row.ts";

export function sqlOf(database: DatabaseSync): Sql {
  return {
    exec<Row>(query: string, ...bindings: unknown[]): SqlRows<Row> {
      const values = (bindings as SQLInputValue[]).map((value) =>
        value instanceof ArrayBuffer ? new Uint8Array(value) : value,
      );
      const rows = database
        .prepare(query)
        .all(...values)
        .map((row) =>
          Object.fromEntries(
            Object.entries(row).map(([name, value]) => [
              name,
              // The platform gives blobs as buffers of their own.
              value instanceof Uint8Array ? value.slice().buffer : value,
            ]),
          ),
        ) as Row[];
      return {
        rowsWritten: 0,
        toArray: () => rows,
        one: () => rows[0]!,
        [Symbol.iterator]: () => rows[Symbol.iterator](),
      };
    },
  };
}
