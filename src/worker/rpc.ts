/**
 * Throttr over a service binding: what other Workers of the account call.
 *
 * Only the account's owner can bind to it, so there is no token: the `props` of a binding say what its calls may do.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import type { Environment } from "../base/environment.ts";
import type { ThrottrService } from "../wire/edge/service.ts";
import { callerOf, type Caller } from "./caller.ts";
import { defineCalls, type ServiceCalls } from "./calls.ts";
import { router } from "./router.ts";
import { accessOfProps, trust } from "./trust.ts";

/** The calls, which `defineCalls` makes: a method for each operation, with the types of `OperationCalls`. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- methods of the prototype, not fields
export interface Throttr extends ServiceCalls {}

/**
 * The entrypoint that other Workers bind to. The runtime makes one for each call, so it has no state of its own: what
 * lasts is in the isolate's modules and in the objects.
 */
export class Throttr extends WorkerEntrypoint<Environment> implements ThrottrService {
  static {
    defineCalls(Throttr.prototype, (entrypoint) => entrypoint.#caller());
  }

  /**
   * HTTP over the binding, with the rights of its props in place of a token. The context is marked, not the request: a
   * request can be rebuilt with any header by the Worker that sends it.
   */
  override async fetch(request: Request): Promise<Response> {
    trust(this.ctx, accessOfProps(this.ctx.props));
    return await router.fetch(request, this.env, this.ctx);
  }

  /** Who calls. The platform fills in `props` from the configuration of the binding; a call cannot change them. */
  #caller(): Caller {
    return callerOf(this.env, this.ctx, accessOfProps(this.ctx.props));
  }
}
