/** `throttr-edge/worker`: the server as a part of another Worker. */
export { Channel } from "../objects/channel/channel.ts";
export { Directory } from "../objects/channel/directory.ts";
export { Hub } from "../objects/hub/hub.ts";
export { Shard } from "../objects/shard/shard.ts";
export { Throttr } from "../worker/rpc.ts";
export { connectThrottr } from "./connect.ts";
export { routeThrottr, type RouteOptions, type Session } from "./route.ts";
export { throttr, type EmbeddedThrottr, type ThrottrOptions } from "./throttr.ts";
export { throttrEdge, type ThrottrEdge, type ThrottrEdgeOptions } from "./throttr-edge.ts";
export type { Pages } from "./pages.ts";
export type { GivenSettings } from "../base/settings.ts";
export type { ExpiringGrant, Grant } from "../base/grant.ts";
/** Of the calls: a project with declarations of its own names them by this module. */
export type * from "../client/index.ts";
