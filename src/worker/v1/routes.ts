/** All routes of the JSON door. */
import { bufferRoutes } from "./buffers.ts";
import { channelRoutes } from "./channels.ts";
import { connectionRoutes } from "./connections.ts";
import { counterRoutes } from "./counters.ts";
import { limitRoutes } from "./limits.ts";
import { namespaceRoutes } from "./namespace.ts";
import { overviewRoutes } from "./overview.ts";
import type { Route } from "./route.ts";
import { semaphoreRoutes } from "./semaphores.ts";

export const ROUTES: readonly Route[] = [
  ...counterRoutes,
  ...bufferRoutes,
  ...limitRoutes,
  ...semaphoreRoutes,
  ...channelRoutes,
  ...connectionRoutes,
  ...namespaceRoutes,
  ...overviewRoutes,
];
