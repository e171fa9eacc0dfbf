import { Probe, type Env } from "./env.ts";

/** Takes 30 ms to start, and calls the Ear meanwhile. */
export class SlowStarter extends Probe {
  readonly party = "starter";
  #isReady = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      await scheduler.wait(30);
      await this.ear().hear("from the constructor");
      this.#isReady = true;
    });
  }

  call(line: string): string {
    this.note(`${line}, ${this.#isReady ? "ready" : "not ready"}`);
    return line;
  }
}

/** Its constructor's block throws, each time. */
export class FaultyStarter extends Probe {
  readonly party = "starter";

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    void ctx.blockConcurrencyWhile(async () => {
      await scheduler.wait(5);
      this.note("can't start");
      throw new RangeError("no start");
    });
  }

  call(line: string): string {
    this.note(line);
    return line;
  }
}

/** Its constructor throws, each time. */
export class ThrowingStarter extends Probe {
  readonly party = "starter";

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.note("throws");
    throw new RangeError("no start");
  }

  call(line: string): string {
    this.note(line);
    return line;
  }
}
