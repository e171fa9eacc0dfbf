/** All ways by which the frames of a client may come. */
import type { OpenPort } from "./port.ts";
import { bindingPort, httpPort } from "./ports.ts";
import { gatewayPort, tcpPort, webSocketPort } from "./socket-port.ts";

export const PORTS: readonly OpenPort[] = [
  httpPort,
  bindingPort,
  webSocketPort,
  tcpPort,
  gatewayPort,
];
