/**
 * A request in its isolate, from its arrival on. Its timers, calls and streams end when it was answered or its client has gone,
 * except for those that `waitUntil` holds. The twins of visits show it.
 */
import type { Isolate } from "./isolate.ts";
import { whenOver } from "./net/endings.ts";
import { lostConnection, RunningLife } from "./running-life.ts";
import type { Site } from "./site.ts";

export class ServedRequest extends RunningLife {
  readonly #isolate: Isolate;
  readonly #forget: () => void;
  #isLetGo = false;

  constructor(site: Site, isolate: Isolate) {
    const name = `${isolate.name} request ${++isolate.requestsBegun}`;
    super(site, isolate.machine, isolate.kind, name, isolate.release);
    this.#isolate = isolate;
    isolate.requests.add(this);
    this.#forget = whenOver(isolate, () => this.#end());
  }

  override enter(): void {
    this.#isolate.enter();
  }

  override waitUntil(work: Promise<unknown>): void {
    super.waitUntil(work);
    const endIfLetGo = (): void => this.#endIfLetGo();
    work.then(endIfLetGo, endIfLetGo);
  }

  /**
   * The client has its answer, or has gone: behind the present event, `waitUntil` alone keeps the request.
   *
   * @returns whether it does
   */
  letGo(isGone: boolean): boolean {
    const goesOn = this.waitedFor > 0;
    if (this.#isLetGo) return goesOn;
    this.#isLetGo = true;
    if (isGone) this.site.faults.noteGone(goesOn ? "work in waitUntil goes on" : "work ends");
    this.#endIfLetGo();
    return goesOn;
  }

  /** The process dies with all that it serves. */
  override crash(what: string): void {
    if (!this.isOver) this.#isolate.crash(what);
  }

  #endIfLetGo(): void {
    if (!this.#isLetGo || this.waitedFor > 0) return;
    this.site.time.after(0, () => {
      if (this.waitedFor === 0) this.#end();
    });
  }

  #end(): void {
    if (this.isOver) return;
    this.#forget();
    this.#isolate.requests.delete(this);
    this.end(lostConnection);
  }
}
