/**
 * Figures of a gateway for each port, and their text for Prometheus.
 *
 * All series exist from the start, with zeros: an alert on the rate of a counter misses the first event of a series that
 * appears with it. So labels come from fixed lists, and unknown close codes share one.
 */

/** Why a connection to the server failed. */
export const FAILURES = ["unreachable", "refused", "lost", "token_unreadable"] as const;
export type Failure = (typeof FAILURES)[number];

/** Close codes that the server and the network use. Any other counts as 0. */
const CLOSE_CODES = [0, 1000, 1001, 1002, 1003, 1005, 1006, 1008, 1009, 1011, 1012, 1013] as const;

/**
 * The figures of a port. Links write the fields directly: a method call for each chunk of bytes
 * would only cost time.
 */
export class PortMetrics {
  /** The port that is open: for port 0 the one that the system chose. */
  readonly port: number;
  /** The protocol as the option names it, such as `7.3/uint16`. */
  readonly protocol: string;
  connections = 0;
  /** Accepted since the start, after the TLS handshake. */
  connectionsTotal = 0;
  /** Connections that were closed at once, beyond `connectionsMax`. */
  refusedTotal = 0;
  /** Bytes from clients, and to clients. */
  receivedBytes = 0;
  sentBytes = 0;
  /** Clients that were closed because they did not read for `stallTimeoutMs`. */
  stalledTotal = 0;
  /** WebSockets that did not open or were lost, by reason. */
  readonly failures: Record<Failure, number> = {
    unreachable: 0,
    refused: 0,
    lost: 0,
    token_unreadable: 0,
  };
  /** Connections that the server closed, by close code. */
  readonly closes = new Map<number, number>(CLOSE_CODES.map((code) => [code, 0]));

  constructor(port: number, protocol: string) {
    this.port = port;
    this.protocol = protocol;
  }

  /**
   * Counts a close by the server. A code outside the list counts as 0: labels must stay a small,
   * fixed set.
   */
  countClose(code: number): void {
    const known = this.closes.has(code) ? code : 0;
    this.closes.set(known, this.closes.get(known)! + 1);
  }
}

/** Figures of the whole process. */
export interface ProcessFigures {
  readonly isDraining: boolean;
  readonly connectionsMax: number;
  /** Resident memory, as the system counts it. */
  readonly residentBytes: number;
  /** Seconds since the epoch. */
  readonly startSeconds: number;
}

type Labels = Readonly<Record<string, string | number>>;
/** A value and the labels that tell its series apart. */
type Sample = readonly [labels: Labels, value: number];

/** Content type of `metricsText`. */
export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Begins the name of each figure, as Prometheus advises: one prefix for one program. */
const PREFIX = "throttr_gateway_";

/** Counters that have one series for each port: name, help, and field. */
const COUNTERS = [
  ["connections_total", "Connections of clients that were accepted.", "connectionsTotal"],
  [
    "connections_refused_total",
    "Connections of clients that were closed at once, beyond connections_max.",
    "refusedTotal",
  ],
  ["received_bytes_total", "Bytes from clients.", "receivedBytes"],
  ["sent_bytes_total", "Bytes to clients.", "sentBytes"],
  ["clients_stalled_total", "Clients that were closed because they did not read.", "stalledTotal"],
] as const;

/**
 * All figures in the text format of Prometheus 0.0.4.
 *
 * @see https://prometheus.io/docs/instrumenting/exposition_formats/
 */
export function metricsText(ports: readonly PortMetrics[], process: ProcessFigures): string {
  const { connectionsMax, isDraining, residentBytes, startSeconds } = process;
  const perPort = (field: "connections" | (typeof COUNTERS)[number][2]): Sample[] =>
    ports.map((port) => [labelsOf(port), port[field]]);
  const gauge = (name: string, help: string, value: number): string =>
    family(name, "gauge", help, [[{}, value]]);
  return [
    family("connections", "gauge", "Open connections of clients.", perPort("connections")),
    gauge("connections_max", "Most connections allowed, on all ports together.", connectionsMax),
    ...COUNTERS.map(([name, help, field]) => family(name, "counter", help, perPort(field))),
    family(
      "upstream_failures_total",
      "counter",
      "Connections to the server that could not be opened, or were lost.",
      ports.flatMap((port) =>
        FAILURES.map((reason): Sample => [{ ...labelsOf(port), reason }, port.failures[reason]]),
      ),
    ),
    family(
      "upstream_closed_total",
      "counter",
      "Connections that the server closed, by WebSocket close code; 0 for an unknown code.",
      ports.flatMap((port) =>
        [...port.closes].map(([code, count]): Sample => [{ ...labelsOf(port), code }, count]),
      ),
    ),
    gauge("draining", "1 while the gateway is draining.", Number(isDraining)),
    gauge("resident_bytes", "Memory of the process.", residentBytes),
    gauge("start_time_seconds", "Start of the gateway, in seconds since the epoch.", startSeconds),
  ].join("");
}

const labelsOf = ({ port, protocol }: PortMetrics): Labels => ({ port, protocol });

/**
 * The lines of one figure: help, type, and a line for each series. The order matters to parsers.
 */
function family(
  name: string,
  type: "counter" | "gauge",
  help: string,
  samples: readonly Sample[],
): string {
  const lines = samples.map(([labels, value]) => `${PREFIX}${name}${shown(labels)} ${value}\n`);
  return `# HELP ${PREFIX}${name} ${help}\n# TYPE ${PREFIX}${name} ${type}\n${lines.join("")}`;
}

/**
 * Labels in braces; nothing for none. No value needs escapes: ports, protocols, codes and reasons
 * are our own words.
 */
function shown(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}
