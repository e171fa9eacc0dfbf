/**
 * The list of the deployment's namespaces: a row for each, written once.
 *
 * An open server may let strangers choose namespaces, so the list is bounded. It shows what there was to see, and nothing
 * depends on it: a namespace that it has no room for works as any other one does. No row is ever removed, as a namespace
 * has no end that any object would notice.
 */
import type { ListedNamespace } from "../../base/calls/channel.ts";
import { logWarning } from "../../base/log.ts";
import { NAMESPACES_LISTED_MAX } from "../../engine/sizes.ts";

const TABLE = `
  CREATE TABLE IF NOT EXISTS namespaces (name TEXT PRIMARY KEY, registered_at_ms INTEGER) WITHOUT ROWID;
`;

/** Of the deployment. All of it is on disk: a list that is read once a day need not be in memory. */
export class NamespaceList {
  readonly #sql: SqlStorage;
  /** Rows; null before the first addition, which counts them. Reading a page does not need the number. */
  #count: number | null = null;
  readonly #max: number;

  /** @param max other than `NAMESPACES_LISTED_MAX` in tests */
  constructor(sql: SqlStorage, max = NAMESPACES_LISTED_MAX) {
    this.#sql = sql;
    this.#max = max;
  }

  /** Lists a namespace, unless it is listed. False when there is no room for it. */
  add(namespace: string, nowMs: number): boolean {
    if (this.#count === null) {
      this.#sql.exec(TABLE);
      this.#count = this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM namespaces").one().n;
    }
    const found = this.#sql.exec("SELECT 1 FROM namespaces WHERE name = ?", namespace).toArray();
    if (found.length > 0) return true;
    if (this.#count >= this.#max) {
      logWarning("namespaces_full", { namespace, max: this.#max });
      return false;
    }
    this.#sql.exec("INSERT INTO namespaces VALUES (?, ?)", namespace, nowMs);
    this.#count++;
    return true;
  }

  /** At most `limit` namespaces in the order of their names, behind `after`. */
  page(after: string | null, limit: number): ListedNamespace[] {
    const table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'namespaces'";
    if (this.#count === null && this.#sql.exec(table).toArray().length === 0) return [];
    return this.#sql
      .exec<{ name: string; registered_at_ms: number }>(
        "SELECT name, registered_at_ms FROM namespaces WHERE name > ? ORDER BY name LIMIT ?",
        after ?? "",
        limit,
      )
      .toArray()
      .map(({ name, registered_at_ms }) => ({ name, registeredAtMs: registered_at_ms }));
  }
}
