/** The network of a run: it makes the links, and knows those that faults can act upon. */
import type { Life } from "../life.ts";
import { AT_ONCE, Link, type Latency, type LinkOptions, type LinkWorld } from "./link.ts";
import { SimBlob, SimResponse, SimRequest, wholeBodyOf } from "./messages.ts";
import { SocketEnd, type Frame } from "./socket-end.ts";
import { endOf, SimWebSocket } from "./web-socket.ts";

/** Between objects and doors. */
export const INTERNAL: Latency = (random) => random.skewed(0.05, 5);
/** Between a client and the door that is nearest to it. */
export const INTERNET: Latency = (random) => random.skewed(1, 120);

/** What faults do to a link. */
export type FaultyLink = Pick<
  Link<never>,
  | "name"
  | "latencyMs"
  | "isOver"
  | "isStalled"
  | "cut"
  | "abandon"
  | "stall"
  | "resume"
  | "unreceivedBytes"
>;

const makeBlob = (bytes: ArrayBuffer): SimBlob => new SimBlob([bytes]);

export class Network {
  readonly world: LinkWorld;
  /** Open links that have left their isolate, in the order in which they did. */
  readonly links = new Set<FaultyLink>();
  #made = 0;

  constructor(world: LinkWorld) {
    this.world = world;
  }

  /** A link that faults can act upon from now on. */
  link<Message>(options: Omit<LinkOptions<Message>, "onOver">): Link<Message> {
    const link = this.#makeLink(options);
    this.links.add(link);
    return link;
  }

  /** The two ends of `new WebSocketPair()`. */
  pair(life: Life): [SimWebSocket, SimWebSocket] {
    const link = this.#makeLink<Frame>({ name: "socket", latencyMs: AT_ONCE });
    const [one, other] = SocketEnd.pair(link);
    return [new SimWebSocket(life, one, makeBlob), new SimWebSocket(life, other, makeBlob)];
  }

  /** Gives an end that was not accepted yet to another life, over the network. */
  passSocket(socket: SimWebSocket, to: Life, latencyMs: Latency): SimWebSocket {
    const end = endOf(socket);
    if (end.isAccepted)
      throw new TypeError("Can't return WebSocket in a Response after calling accept().");
    this.carry(end, latencyMs);
    const passed = new SimWebSocket(to, end, makeBlob);
    // Nobody is left to accept it.
    if (to.isOver) end.abandon();
    return passed;
  }

  /** What the end of a socket sends and receives takes its time from now on, and faults can act upon it. */
  carry(end: SocketEnd, latencyMs: Latency): void {
    end.link.latencyMs = latencyMs;
    if (!end.link.isOver) this.links.add(end.link);
  }

  /**
   * The response of one isolate as another gets it. Bodies go whole: what streams goes through `exchange.ts`.
   *
   * @throws TypeError for a body that is a stream
   */
  passResponse(response: SimResponse, to: Life, latencyMs: Latency = INTERNAL): SimResponse {
    const { status, statusText, webSocket } = response;
    const headers = new Headers(response.headers);
    const passed = webSocket === null ? null : this.passSocket(webSocket, to, latencyMs);
    return new SimResponse(wholeBody(response), { status, statusText, headers, webSocket: passed });
  }

  /**
   * The request of one isolate as another gets it.
   *
   * @throws TypeError for a body that is a stream
   */
  passRequest(request: SimRequest): SimRequest {
    const { url, method, cf } = request;
    const headers = new Headers(request.headers);
    return new SimRequest(url, {
      method,
      headers,
      ...(cf === undefined ? {} : { cf }),
      body: wholeBody(request),
    });
  }

  #makeLink<Message>(options: Omit<LinkOptions<Message>, "onOver">): Link<Message> {
    return new Link<Message>(this.world, {
      ...options,
      name: `${options.name} ${++this.#made}`,
      onOver: (link) => this.links.delete(link),
    });
  }
}

export { makeBlob };

function wholeBody(message: SimRequest | SimResponse): Uint8Array | null {
  const bytes = wholeBodyOf(message);
  if (bytes === null)
    throw new TypeError("a call between objects carries no stream in this simulator");
  return bytes.length === 0 ? null : bytes;
}
