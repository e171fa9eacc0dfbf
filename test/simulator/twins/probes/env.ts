/** What all probes share: the bindings, and the tables with which a commit can be made to fail. */
import { DurableObject } from "cloudflare:workers";
import { note } from "../note.ts";
import type { Ear } from "./ear.ts";
import type { Host } from "./host.ts";

export interface Env {
  readonly Ear: DurableObjectNamespace<Ear>;
  readonly Host: DurableObjectNamespace<Host>;
}

export abstract class Probe extends DurableObject<Env> {
  /** The party of its notes. */
  abstract readonly party: string;

  protected note(line: string): void {
    note(this.party, line);
  }

  /** A new stub of the Ear of the same scenario. */
  protected ear(): DurableObjectStub<Ear> {
    const [scenario] = this.ctx.id.name!.split("/");
    return this.env.Ear.getByName(`${scenario}/Ear`);
  }

  /** Notes, as a party of its own, when a promise settles, without waiting for it. */
  protected watch(party: string, promise: Promise<unknown>): void {
    promise.then(
      () => note(party, "settles"),
      (error: unknown) => note(party, `fails: ${String(error)}`),
    );
  }

  protected createTables(): void {
    this.ctx.storage.sql.exec(`
      CREATE TABLE IF NOT EXISTS line (text);
      CREATE TABLE IF NOT EXISTS parent (id INTEGER PRIMARY KEY);
      CREATE TABLE IF NOT EXISTS child (id REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`);
  }

  protected write(text: string): void {
    this.ctx.storage.sql.exec("INSERT INTO line VALUES (?)", text);
  }

  /** Writes a row that violates a constraint which is checked at the commit, so that the commit fails. */
  protected writeDoomed(): void {
    this.ctx.storage.sql.exec("INSERT INTO child VALUES (1)");
  }

  protected lines(): string {
    const rows = this.ctx.storage.sql.exec<{ text: string }>("SELECT text FROM line").toArray();
    return rows.map(({ text }) => text).join(", ");
  }
}
