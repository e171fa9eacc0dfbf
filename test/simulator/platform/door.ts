/** A door of a deployment: an isolate of the Worker, which takes requests, TCP connections, and calls over service bindings. */
import type { Cluster } from "./cluster.ts";
import type { Isolate } from "./isolate.ts";
import type { Life } from "./life.ts";
import type { LetGo, Serve } from "./net/exchange.ts";
import type { SimRequest, SimResponse } from "./net/messages.ts";
import type { RunningLife } from "./running-life.ts";
import { ServedRequest } from "./served-request.ts";

/** What the Worker exports. */
interface Handler {
  fetch(request: SimRequest, env: object, ctx: object): Promise<SimResponse>;
  connect(socket: object, env: object): Promise<void>;
}

export class Door {
  readonly isolate: Isolate;
  readonly #cluster: Cluster;
  readonly #env: object;
  readonly #handler: Handler;

  constructor(cluster: Cluster, isolate: Isolate) {
    this.isolate = isolate;
    this.#cluster = cluster;
    this.#env = cluster.environment(isolate);
    this.#handler = isolate.exports["default"] as Handler;
  }

  /** Runs an event of the isolate for a request that has arrived. */
  enter(event: (life: Life, serve: Serve, letGo: LetGo) => void): void {
    this.#begin("fetch", (life) => {
      const serve: Serve = (request) => {
        const served = this.#handler.fetch(request, this.#env, contextOf(life, {}));
        served.catch((error: unknown) =>
          this.#cluster.site.onError(life, "fetch of a door", error),
        );
        return served;
      };
      event(life, serve, (isGone) => life.letGo(isGone));
    });
  }

  /**
   * Runs an event of the isolate for a call over a service binding, which has an instance of an entrypoint for itself. The call
   * lasts until what `event` returns has settled.
   *
   * @param props of the binding
   */
  enterCall(
    method: string,
    entrypoint: string,
    props: object,
    event: (life: RunningLife, instance: object) => Promise<void>,
  ): void {
    this.#begin(method, (life) => {
      const Class = this.isolate.exports[entrypoint] as new (ctx: object, env: object) => object;
      void event(life, new Class(contextOf(life, props), this.#env)).finally(() =>
        life.letGo(false),
      );
    });
  }

  /** Runs an event of the isolate for a TCP connection that has arrived. */
  enterTcp(event: (life: Life, serve: (socket: object) => Promise<void>) => void): void {
    this.isolate.run("connect", () => {
      event(this.isolate, async (socket) => {
        const served = this.#handler.connect(socket, this.#env);
        this.isolate.waitUntil(served);
        await served;
      });
    });
  }

  #begin(what: string, event: (life: ServedRequest) => void): void {
    const life = new ServedRequest(this.#cluster.site, this.isolate);
    life.run(what, () => event(life));
  }
}

const contextOf = (life: RunningLife, props: object): object => ({
  props,
  waitUntil: (work: Promise<unknown>) => life.waitUntil(work),
  passThroughOnException: () => {},
});
