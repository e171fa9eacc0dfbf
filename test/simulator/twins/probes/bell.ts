import type { Ringing } from "./calls.ts";
import { Probe, type Env } from "./env.ts";

/** Has an alarm, and notes when it rings and what the storage says meanwhile. */
export class Bell extends Probe {
  readonly party = "bell";
  #isReady = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      const state = await this.state();
      await scheduler.wait(5);
      this.#isReady = true;
      // Fields of subclasses are there by now.
      this.note(`starts: ${state}`);
    });
  }

  async set(ringing: Ringing, delayMs: number): Promise<void> {
    this.ctx.storage.kv.put("ringing", ringing);
    await this.ctx.storage.setAlarm(Date.now() + delayMs);
    this.note(`sets it: ${await this.state()}`);
  }

  async reset(delayMs: number): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + delayMs);
  }

  async setDoomed(delayMs: number): Promise<void> {
    this.createTables();
    await this.ctx.storage.sync();
    this.ctx.storage.kv.put("ringing", "end");
    await this.ctx.storage.setAlarm(Date.now() + delayMs);
    this.writeDoomed();
    this.note(`sets it: ${await this.state()}`);
  }

  async deleteAll(): Promise<string> {
    await this.ctx.storage.deleteAll();
    return await this.state();
  }

  async state(): Promise<string> {
    return (await this.ctx.storage.getAlarm()) === null ? "no alarm" : "an alarm";
  }

  override async alarm({ retryCount, isRetry }: AlarmInvocationInfo): Promise<void> {
    const { storage } = this.ctx;
    const times = (storage.kv.get<number>("times") ?? 0) + 1;
    const isFirst = times === 1;
    storage.kv.put("times", times);
    const retry = isRetry ? `retry ${retryCount}` : "no retry";
    this.note(
      `rings ${times}, ${retry}, ${this.#isReady ? "ready" : "not ready"}: ${await this.state()}`,
    );
    switch (storage.kv.get<Ringing>("ringing")) {
      case "wait":
        await this.ear().hold();
        break;
      case "throw once":
        if (isFirst) throw new Error("in the alarm");
        break;
      case "set and throw once":
        if (!isFirst) break;
        await storage.setAlarm(Date.now() + 50);
        throw new Error("in the alarm");
      case "set once":
        if (isFirst) await storage.setAlarm(Date.now() + 20);
        break;
      case "abort once":
        await storage.sync();
        if (isFirst) this.ctx.abort("in the alarm");
        break;
      case "doom once":
        if (!isFirst) break;
        this.createTables();
        await storage.sync();
        this.writeDoomed();
        return;
      case "delete":
        await storage.deleteAlarm();
        break;
      case "deleteAll":
        await storage.deleteAll();
        break;
      default:
    }
    this.note(`has rung: ${await this.state()}`);
  }
}
