/** All routes of the JSON door. */
import { accessRoutes } from "./access.ts";
import { bufferRoutes } from "./buffers.ts";
import { channelRoutes } from "./channels.ts";
import { connectionRoutes } from "./connections.ts";
import { counterRoutes } from "./counters.ts";
import { historyRoutes } from "./history.ts";
import { limitFigureRoutes } from "./limit-figures.ts";
import { limitRoutes } from "./limits.ts";
import { namespaceRoutes } from "./namespace.ts";
import { namespacesRoutes } from "./namespaces.ts";
import { overviewRoutes } from "./overview.ts";
import type { Route } from "./route.ts";
import { shardRoutes } from "./shards.ts";
import { semaphoreRoutes } from "./semaphores.ts";
import { tokenRoutes } from "./tokens.ts";

/**
 * In the order in which the document, and so `/docs`, lists them. Paths never overlap, so routing does not depend on
 * it.
 */
export const ROUTES: readonly Route[] = [
  ...counterRoutes,
  ...bufferRoutes,
  ...limitRoutes,
  ...semaphoreRoutes,
  ...channelRoutes,
  ...connectionRoutes,
  ...namespaceRoutes,
  ...overviewRoutes,
  ...limitFigureRoutes,
  ...historyRoutes,
  ...shardRoutes,
  ...accessRoutes,
  ...namespacesRoutes,
  ...tokenRoutes,
];
