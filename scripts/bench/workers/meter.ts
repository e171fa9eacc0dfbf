/**
 * What the platform bills of objects: requests to them and rows that they write, by its own count.
 *
 * One count for all objects of a script: they share one isolate where this runs.
 */
import type { MeterFigures } from "./check-load.ts";

const figures = { requests: 0, rowsWritten: 0 };

export function readMeter(): MeterFigures {
  return { ...figures };
}

export function meterRequest(): void {
  figures.requests++;
}

/** Tables of the local runtime's own: in them it writes a row whenever an object starts. */
const LOCAL_TABLES = "__miniflare_";

/**
 * Counts the rows that a storage writes from now on; an alarm is one. What the local runtime would write,
 * and the platform does not, is not written.
 */
export function meterRows(storage: DurableObjectStorage): void {
  const { sql } = storage;
  const exec = sql.exec.bind(sql);
  sql.exec = <Row extends Record<string, SqlStorageValue>>(query: string, ...values: unknown[]) => {
    if (query.includes(LOCAL_TABLES)) return exec<Row>("SELECT 1");
    const cursor = exec<Row>(query, ...values);
    figures.rowsWritten += cursor.rowsWritten;
    return cursor;
  };
  const setAlarm = storage.setAlarm.bind(storage);
  storage.setAlarm = async (...parameters) => {
    figures.rowsWritten++;
    await setAlarm(...parameters);
  };
}
