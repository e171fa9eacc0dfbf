import { note } from "../note.ts";
import type { Held } from "./calls.ts";
import { Probe } from "./env.ts";

/** Awaits one thing while calls are ready to be delivered. */
export class Holder extends Probe {
  readonly party = "holder";

  constructor(ctx: DurableObjectState, env: Probe["env"]) {
    super(ctx, env);
    this.createTables();
  }

  poke(line: string): void {
    this.note(line);
  }

  async hold(what: Held): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => await this.ear().hold());
    this.note(`awaits ${what}`);
    await this.#await(what);
    this.note("goes on");
  }

  async #await(what: Held): Promise<void> {
    const { storage } = this.ctx;
    switch (what) {
      case "sync":
        return await storage.sync();
      case "sync of a row":
        this.write("row");
        return await storage.sync();
      case "timer":
        return await scheduler.wait(5);
      case "wait(0)":
        return await scheduler.wait(0);
      case "rpc":
        return void (await this.ear().hear("rpc"));
      case "fetch":
        return void (await this.ear().fetch("http://ear/"));
      case "nothing":
        return;
      case "microtasks":
        for (let i = 0; i < 1000; i++) await Promise.resolve();
        return;
      case "getAlarm":
        return void (await storage.getAlarm());
      case "setAlarm":
        return await storage.setAlarm(Date.now() + 1e8);
      case "deleteAlarm":
        return await storage.deleteAlarm();
      case "block":
        return await this.ctx.blockConcurrencyWhile(() => scheduler.wait(5));
    }
  }

  async blockWithEvents(): Promise<void> {
    let isBlocked = true;
    const noteOf = (party: string) => (): void => {
      note(party, isBlocked ? "is delivered within the block" : "is delivered behind the block");
    };
    setTimeout(noteOf("timer from outside"), 5);
    const outside = this.ear().hear("from outside").then(noteOf("call from outside"));
    await this.ctx.blockConcurrencyWhile(async () => {
      await scheduler.wait(30);
      await this.ear().hear("from inside").then(noteOf("call from inside"));
      isBlocked = false;
    });
    await outside;
    await scheduler.wait(20);
  }

  async throwInBlock(): Promise<void> {
    try {
      await this.ctx.blockConcurrencyWhile(async () => {
        await scheduler.wait(1);
        throw new Error("within the block");
      });
    } finally {
      this.note("goes on");
    }
  }

  async yieldOften(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => await this.ear().hold());
    for (let i = 0; i < 3; i++) {
      this.note(`yields ${i}`);
      await scheduler.wait(0);
    }
    this.note("goes on");
  }

  async wait0BesideTimers(): Promise<void> {
    this.write("row");
    setTimeout(() => this.note("timeout 20"), 20);
    setTimeout(() => this.note("timeout 0"), 0);
    void scheduler.wait(0).then(() => this.note("wait 0"));
    queueMicrotask(() => this.note("microtask"));
    await scheduler.wait(40);
  }

  override alarm(): void {}
}
