/** A door of a deployment: an isolate of the Worker, which takes requests, TCP connections, and calls over service bindings. */
import type { Cluster } from "./cluster.ts";
import type { Isolate } from "./isolate.ts";
import type { Life } from "./life.ts";
import type { SimRequest, SimResponse } from "./net/messages.ts";

/** What the Worker exports. */
interface Handler {
  fetch(request: SimRequest, env: object, ctx: object): Promise<SimResponse>;
  connect(socket: object, env: object): Promise<void>;
}

export class Door {
  readonly isolate: Isolate;
  readonly env: object;
  readonly #handler: Handler;

  constructor(cluster: Cluster, isolate: Isolate) {
    this.isolate = isolate;
    this.env = cluster.environmentOf(isolate);
    this.#handler = isolate.exports["default"] as Handler;
  }

  /** Runs an event of the isolate for a request that has arrived. */
  enter(event: (life: Life, serve: (request: SimRequest) => Promise<SimResponse>) => void): void {
    this.isolate.run("fetch", () => {
      event(this.isolate, (request) => this.#handler.fetch(request, this.env, this.context()));
    });
  }

  /** An instance of an entrypoint, for one call over a service binding. */
  entrypoint(name: string, props: object): object {
    const Class = this.isolate.exports[name] as new (ctx: object, env: object) => object;
    return new Class(this.context(props), this.env);
  }

  /** Runs an event of the isolate for a TCP connection that has arrived. */
  enterTcp(event: (life: Life, serve: (socket: object) => Promise<void>) => void): void {
    this.isolate.run("connect", () => {
      event(this.isolate, async (socket) => {
        const served = this.#handler.connect(socket, this.env);
        this.isolate.waitUntil(served);
        await served;
      });
    });
  }

  context(props: object = {}): object {
    return {
      props,
      waitUntil: (work: Promise<unknown>) => this.isolate.waitUntil(work),
      passThroughOnException: () => {},
    };
  }
}
