/**
 * The gateway: it accepts TCP connections, and carries each over a WebSocket of its own to a deployed server.
 *
 * This file owns what all connections share: listening sockets, limits, certificate, figures, and the end of the process.
 * It knows nothing of the bytes of a connection; those are in `link.ts`.
 */
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type Server as TlsServer } from "node:tls";
import type { TcpPort } from "../../wire/tcp-ports.ts";
import { readCertificate, type Certificate } from "./certificate.ts";
import { UnavailableError, UsageError } from "../failure.ts";
import { detailOf } from "./error.ts";
import { Link, type LinkSettings } from "./link.ts";
import { GatewayLog } from "./log.ts";
import { metricsServer } from "./metrics-server.ts";
import { metricsText, PortMetrics } from "./metrics.ts";
import {
  doorUrl,
  hostOf,
  isLoopback,
  limitsOf,
  LOOPBACK,
  upstreamUrl,
  type GatewayOptions,
} from "./options.ts";
import { givenToken } from "./token.ts";

/** Clients that the system lets wait to be accepted: enough for all of them to come back at once after an outage. */
const BACKLOG = 1024;
/** Time for answers that are on their way when the time to drain is over. */
const LAST_ANSWERS_MS = 1000;
/** Errors that may be gone at the next start: the port is taken, or the machine does not have its network or names yet. */
const TEMPORARY: ReadonlySet<string> = new Set(["EADDRINUSE", "EADDRNOTAVAIL", "EAI_AGAIN"]);

/**
 * Starts a gateway. Resolves when all ports are open.
 *
 * @throws UsageError `option_invalid`, `tls_invalid`, `listen_failed`, `token_unreadable`
 * @throws UnavailableError `listen_failed` where a later start may succeed
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const settings = { ...limitsOf(options), token: options.token ?? givenToken(null) };
  const url = upstreamUrl(options.url);
  const certificate = options.tls === undefined ? null : await readCertificate(options.tls);
  const gateway = new Gateway(options, settings, url, certificate);
  await gateway.listen();
  return gateway;
}

/** The listening sockets and links of one process. Made by `startGateway`. */
export class Gateway {
  /** Ports that are open, in the order of the options. */
  readonly ports: number[] = [];
  /** Port of `/metrics` and `/health`; null without one. */
  metricsPort: number | null = null;
  readonly #options: GatewayOptions;
  /** Limits and token; also what each link receives. */
  readonly #settings: LinkSettings;
  /** Address of the server, `ws` or `wss`, without the path of a door. */
  readonly #url: URL;
  /**
   * Address to listen on. Anything but loopback gives the network the rights of the token, so
   * `#warn` says so.
   */
  readonly #host: string;
  /** All links share it: its intervals for repeated events count over the whole process. */
  readonly #log: GatewayLog;
  /** Null for plain TCP. */
  readonly #certificate: Certificate | null;
  /** Seconds since the epoch, for `start_time_seconds`: a collector recognizes a restart by it. */
  readonly #startSeconds = Math.floor(Date.now() / 1000);
  /** One for each port, in the order of the options. */
  readonly #servers: Server[] = [];
  readonly #metrics: PortMetrics[] = [];
  /** Open connections, from the end of the handshake until both sides have ended. */
  readonly #links = new Set<Link>();
  /** Accepted sockets. Unlike `#links` they include TLS handshakes under way, which cost a file descriptor, too. */
  readonly #sockets = new Set<Socket>();
  /** HTTP for `/metrics` and `/health`; listens only with `metricsPort`. */
  readonly #figures = metricsServer({
    metrics: () => this.#metricsText(),
    health: () => this.#health(),
  });
  /**
   * Set by the first `close`. `/health` answers 503 from then on, so a balancer sends no more
   * clients.
   */
  #isClosing = false;
  /** The drain under way: a second `close` waits for the same one. */
  #closed: Promise<void> | null = null;
  /** Resolves when the gateway is closing and has no links. */
  readonly #isEmpty = Promise.withResolvers<void>();

  /**
   * Opens nothing yet: `listen` does.
   *
   * @param url from `upstreamUrl`
   * @param certificate null for ports without TLS
   */
  constructor(
    options: GatewayOptions,
    settings: LinkSettings,
    url: URL,
    certificate: Certificate | null,
  ) {
    this.#options = options;
    this.#settings = settings;
    this.#url = url;
    this.#certificate = certificate;
    this.#host = hostOf(options);
    const write = options.writeLog ?? ((line: string) => void process.stderr.write(line));
    this.#log = new GatewayLog(write, options.isQuiet === true);
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#links.size;
  }

  /**
   * Opens all ports, or none.
   *
   * @throws UnavailableError `listen_failed` with the port that is taken
   * @throws UsageError `listen_failed` with the port that is not allowed
   */
  async listen(): Promise<void> {
    this.#warn();
    try {
      for (const port of this.#options.ports) await this.#listenOn(port);
      if (this.#options.metricsPort !== undefined) {
        this.metricsPort = await listening(this.#figures, this.#options.metricsPort, LOOPBACK);
        this.#log.info("metrics_listening", { host: LOOPBACK, port: this.metricsPort });
      }
    } catch (error) {
      for (const server of this.#servers) server.close();
      this.#figures.close();
      // Clients may have connected to the ports that did open, and would keep the process alive.
      this.#stopAll();
      this.#figures.closeAllConnections();
      throw error;
    }
  }

  /**
   * Reads the certificate again, for new connections. If that fails, it is logged, and the old one
   * stays in use: a renewal that went wrong must not end a gateway that works.
   */
  async reload(): Promise<void> {
    if (this.#options.tls === undefined) return;
    try {
      const certificate = await readCertificate(this.#options.tls);
      for (const server of this.#servers) (server as TlsServer).setSecureContext(certificate);
      this.#log.info("tls_reloaded");
    } catch (error) {
      this.#log.error("tls_reload_failed", { detail: detailOf(error) });
    }
  }

  /**
   * Accepts no more connections, waits `drainMs` for the open ones, and then ends them: requests
   * under way are still answered. A second call ends them at once.
   */
  close(): Promise<void> {
    if (this.#isClosing) this.#stopAll();
    this.#isClosing = true;
    return (this.#closed ??= this.#drain());
  }

  /**
   * Closes in three steps: no new connections, then no new requests after `drainMs`, then nothing
   * at all a second later.
   */
  async #drain(): Promise<void> {
    const { drainMs } = this.#settings;
    this.#log.info("draining", { connections: this.#links.size, drainMs });
    // `server.close` calls back only when all accepted sockets have closed, those in a TLS
    // handshake included.
    const closed = this.#servers.map(
      (server) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    this.#checkEmpty();
    const finish = setTimeout(() => {
      for (const link of this.#links) link.finish();
    }, drainMs);
    const stop = setTimeout(() => this.#stopAll(), drainMs + LAST_ANSWERS_MS);
    await Promise.all([this.#isEmpty.promise, ...closed]);
    clearTimeout(finish);
    clearTimeout(stop);
    this.#figures.close();
    // Collectors keep their connection open; `close` alone would wait for them.
    this.#figures.closeAllConnections();
    this.#log.info("stopped");
  }

  /** Ends everything at once. Destroys sockets, too: those in a TLS handshake have no link yet. */
  #stopAll(): void {
    for (const link of this.#links) link.stop();
    for (const socket of this.#sockets) socket.destroy();
  }

  /**
   * Warns of settings that are allowed and dangerous. They are no errors: networks without
   * strangers exist.
   */
  #warn(): void {
    if (!isLoopback(this.#host)) {
      this.#log.warning("host_open", {
        host: this.#host,
        detail: "TCP has no tokens: every client gets the rights of the gateway's token",
      });
    }
    if (this.#url.protocol === "ws:" && !isLoopback(this.#url.hostname)) {
      this.#log.warning("url_unencrypted", {
        url: this.#url.href,
        detail: "the token and all data are sent unencrypted",
      });
    }
  }

  /**
   * Opens a port and connects its events. The figures of the port exist from here on, with zeros.
   */
  async #listenOn({ port, name, path }: TcpPort): Promise<void> {
    const server = this.#makeServer();
    this.#servers.push(server);
    const bound = await listening(server, port, this.#host);
    const metrics = new PortMetrics(bound, name);
    this.#metrics.push(metrics);
    this.ports.push(bound);
    const url = doorUrl(this.#url, path);
    const isTls = this.#certificate !== null;
    const host = { url, settings: this.#settings, log: this.#log, metrics };
    server.on("error", (error) => {
      // Most likely no file descriptor is left. Waiting clients are accepted once there are some again.
      this.#log.repeated("accept_failed", "", { port: bound, detail: detailOf(error) });
    });
    server.on("connection", (socket: Socket) => this.#admit(socket, metrics));
    server.on("tlsClientError", (error: Error, socket: Socket) => {
      // Node only reports a handshake that took too long: closing its socket is left to us.
      socket.destroy();
      this.#log.repeated("tls_failed", "", { port: bound, detail: detailOf(error) });
    });
    server.on(isTls ? "secureConnection" : "connection", (socket: Socket) => {
      // `#admit` runs first for plain TCP, and destroys connections beyond the limit.
      if (socket.destroyed) return;
      metrics.connectionsTotal++;
      metrics.connections++;
      const link = new Link(socket, host, () => {
        metrics.connections--;
        this.#links.delete(link);
        this.#checkEmpty();
      });
      this.#links.add(link);
    });
    this.#log.info("listening", {
      host: this.#host,
      port: bound,
      protocol: name,
      url: url.href,
      tls: isTls,
    });
  }

  /**
   * A server for plain TCP or TLS. Half-open: a client may end its half and still read the replies
   * to what it sent.
   */
  #makeServer(): Server {
    if (this.#certificate === null) return createServer({ allowHalfOpen: true });
    return createTlsServer({
      ...this.#certificate,
      allowHalfOpen: true,
      handshakeTimeout: this.#settings.connectTimeoutMs,
    });
  }

  /** Counts a connection, or closes it when there are too many. */
  #admit(socket: Socket, metrics: PortMetrics): void {
    const { connectionsMax } = this.#settings;
    if (Math.max(this.#sockets.size, this.#links.size) >= connectionsMax) {
      metrics.refusedTotal++;
      this.#log.repeated("connections_max", "", { port: metrics.port, connectionsMax });
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  /** Lets `#drain` go on when the last link has ended. */
  #checkEmpty(): void {
    if (this.#isClosing && this.#links.size === 0) this.#isEmpty.resolve();
  }

  /** Figures are read when they are asked for; nothing is sampled in between. */
  #metricsText(): string {
    return metricsText(this.#metrics, {
      isDraining: this.#isClosing,
      connectionsMax: this.#settings.connectionsMax,
      residentBytes: process.memoryUsage.rss(),
      startSeconds: this.#startSeconds,
    });
  }

  /**
   * Answers for a load balancer. The server behind is not asked: one that is down is no reason to
   * move clients to another gateway.
   */
  #health(): { isReady: boolean; body: Record<string, unknown> } {
    const isReady = !this.#isClosing;
    const status = isReady ? "ok" : "draining";
    return { isReady, body: { status, connections: this.#links.size } };
  }
}

/**
 * Starts to listen, and returns the port, which the system chooses for port 0.
 *
 * @throws UnavailableError `listen_failed` where a later start may succeed, UsageError `listen_failed` for other reasons
 */
async function listening(server: Server, port: number, host: string): Promise<number> {
  server.listen({ port, host, backlog: BACKLOG });
  try {
    await once(server, "listening");
  } catch (error) {
    const isTemporary = TEMPORARY.has((error as NodeJS.ErrnoException).code ?? "");
    const Failed = isTemporary ? UnavailableError : UsageError;
    throw new Failed("listen_failed", `port ${port}: ${detailOf(error)}`);
  }
  return (server.address() as AddressInfo).port;
}
