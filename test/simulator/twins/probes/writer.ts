import { KILLED } from "../note.ts";
import type { Parcel } from "./calls.ts";
import { Probe } from "./env.ts";

/** Writes rows, some of which can't be committed, and sends messages to the Ear. */
export class Writer extends Probe {
  readonly party = "writer";

  async prepare(): Promise<void> {
    this.createTables();
    await this.ctx.storage.sync();
  }

  rows(): string {
    return this.lines();
  }

  read(): string {
    this.note("reads");
    return "read";
  }

  async hang(): Promise<void> {
    this.note("hangs");
    await new Promise(() => {});
  }

  doom(): string {
    this.writeDoomed();
    this.note("writes");
    return "done";
  }

  doomAndThrow(): void {
    this.writeDoomed();
    this.note("throws");
    throw new Error("of the method");
  }

  async sendBehindDoomedRow(): Promise<void> {
    const socket = await this.#connect();
    socket.send("in an earlier turn");
    await scheduler.wait(50);
    this.write("doomed");
    this.writeDoomed();
    socket.send("behind the row");
    this.watch("rpc", this.ear().hear("behind the row"));
    this.watch("fetch", this.ear().fetch("http://ear/behind-the-row"));
    this.note("sends");
    await new Promise(() => {});
  }

  async sendBeforeDoomedRow(): Promise<void> {
    const socket = await this.#connect();
    socket.send("before the row");
    this.watch("rpc", this.ear().hear("before the row"));
    this.watch("fetch", this.ear().fetch("http://ear/before-the-row"));
    this.write("doomed");
    this.writeDoomed();
    this.note("sends");
    await new Promise(() => {});
  }

  async waitBehindDoomedRow(): Promise<void> {
    this.watch("rpc of an earlier turn", this.ear().hearSlowly("slow"));
    await scheduler.wait(1);
    this.writeDoomed();
    this.watch("sync", this.ctx.storage.sync());
    this.watch("wait(0)", scheduler.wait(0));
    this.watch("wait(20)", scheduler.wait(20));
    this.ctx.waitUntil(scheduler.wait(20).then(() => this.note("goes on in waitUntil")));
    this.watch("microtask", Promise.resolve());
    this.watch("getAlarm", this.ctx.storage.getAlarm());
    await this.ctx.storage.sync();
    this.note("goes on");
  }

  async syncThenDoom(): Promise<void> {
    this.write("synced");
    await this.ctx.storage.sync();
    this.write("doomed");
    this.writeDoomed();
  }

  async sendAroundRow(): Promise<void> {
    const ear = this.ear();
    const before = ear.hear("before the row");
    this.write("row");
    await Promise.all([before, ear.hear("behind the row"), ear.hear("last")]);
  }

  async passAndChange(): Promise<Parcel> {
    this.write("a row, so that the call waits for its commit");
    const all = new Uint8Array([1, 2, 3, 4]);
    const parcel = { count: 1, bytes: all.subarray(1, 3) };
    const passing = this.ear().take(parcel);
    parcel.count = 2;
    all.fill(9);
    const returned = await passing;
    this.note(`gets back ${returned.count} ${returned.bytes.join()}`);
    void Promise.resolve()
      .then(() => Promise.resolve())
      .then(() => (returned.count = 3));
    return returned;
  }

  abortWithinTurn(reason: string): void {
    this.write("of the turn that aborts");
    this.watch("sync", this.ctx.storage.sync());
    this.watch("microtask", Promise.resolve());
    this.watch("timer", scheduler.wait(5));
    this.watch("rpc", this.ear().hear("called before the abort"));
    this.ctx.waitUntil(scheduler.wait(5).then(() => this.note("goes on in waitUntil")));
    try {
      this.ctx.abort(reason);
    } catch (error) {
      this.note(`catches ${String(error)}`);
    } finally {
      this.note("goes on");
    }
  }

  async abortAfterTurns(reason: string): Promise<void> {
    this.write("first");
    await scheduler.wait(0);
    this.write("second");
    await Promise.resolve();
    this.write("with the second");
    await this.ctx.storage.sync();
    this.write("third");
    this.ctx.abort(reason);
  }

  async abortWhileCalling(): Promise<void> {
    this.watch("rpc", this.ear().hearSlowly("slow"));
    await scheduler.wait(10);
    this.ctx.abort("while a call is on its way");
  }

  async dieWithinTurn(): Promise<void> {
    this.write("synced");
    await this.ctx.storage.sync();
    this.write("doomed");
    await Promise.resolve();
    this.write("with it");
    this.note(KILLED);
    for (;;);
  }

  async deleteAll(): Promise<string> {
    this.write("row");
    this.ctx.storage.kv.put("key", 1);
    const deleting = this.ctx.storage.deleteAll();
    const tables = this.ctx.storage.sql.exec("SELECT name FROM sqlite_master").toArray();
    this.note(`has ${tables.length} tables, and ${String(this.ctx.storage.kv.get("key"))}`);
    await deleting;
    this.createTables();
    this.write("new");
    return this.lines();
  }

  async #connect(): Promise<WebSocket> {
    const request = new Request("http://ear/", { headers: { Upgrade: "websocket" } });
    const socket = (await this.ear().fetch(request)).webSocket!;
    socket.accept();
    return socket;
  }
}
