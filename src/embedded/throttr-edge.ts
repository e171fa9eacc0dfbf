/** All of the server at once, with settings in code. */
import { deploy, EMBEDDED, type ClassName } from "../base/deployment.ts";
import { assertSettings, SettingsError, type GivenSettings } from "../base/settings.ts";
import { Channel } from "../objects/channel/channel.ts";
import { Directory } from "../objects/channel/directory.ts";
import { Hub } from "../objects/hub/hub.ts";
import { Shard } from "../objects/shard/shard.ts";
import { checkOptions, type FieldNames } from "../wire/edge/argument.ts";
import { tcpPorts } from "../worker/ports.ts";
import { Throttr } from "../worker/rpc.ts";
import { connectThrottr } from "./connect.ts";
import { routeThrottr } from "./route.ts";
import { throttr } from "./throttr.ts";

export interface ThrottrEdgeOptions {
  /**
   * Settings by the names of the variables without a prefix, such as `DURABILITY`. A variable of the environment, such as
   * `THROTTR_DURABILITY`, wins over its setting in code.
   */
  readonly settings?: GivenSettings | undefined;
  /** The names that the Worker exports classes under, where those are not their own: `{ Shard: "ThrottrShard" }`. */
  readonly classes?: Readonly<Partial<Record<ClassName, string>>> | undefined;
}

const OPTIONS: FieldNames<ThrottrEdgeOptions> = { settings: true, classes: true };

/** What `throttrEdge` gives: the exports of the module, which its settings hold for. */
export interface ThrottrEdge {
  readonly Shard: typeof Shard;
  readonly Hub: typeof Hub;
  readonly Channel: typeof Channel;
  readonly Directory: typeof Directory;
  readonly Throttr: typeof Throttr;
  readonly throttr: typeof throttr;
  readonly routeThrottr: typeof routeThrottr;
  readonly connectThrottr: typeof connectThrottr;
}

const PARTS: ThrottrEdge = {
  Shard,
  Hub,
  Channel,
  Directory,
  Throttr,
  throttr,
  routeThrottr,
  connectThrottr,
};

/**
 * Gives settings to the server in this Worker, and returns all of its parts.
 *
 * Call it at module level: an object that its alarm wakes never runs a fetch handler. It brings all parts into the
 * bundle; a Worker with few of them takes its settings from variables.
 *
 * @throws ThrottrError `config_invalid`, `option_invalid`, `argument_invalid`
 *
 * @example
 * export const { Shard, Hub, Channel, Directory } = throttrEdge({ settings: { HUBS_MAX: 4 } });
 */
export function throttrEdge(options: ThrottrEdgeOptions = {}): ThrottrEdge {
  checkOptions(options, OPTIONS, "throttrEdge");
  const { settings = {}, classes = {} } = options;
  tcpPorts(assertSettings(settings));
  for (const [name, exported] of Object.entries(classes)) {
    if (Object.hasOwn(PARTS, name) && /^[A-Z]/.test(name) && typeof exported === "string") continue;
    throw new SettingsError(
      `classes.${name}: expected the name of an export, for Shard, Hub, Channel, Directory or Throttr`,
    );
  }
  deploy({ ...EMBEDDED, settings, classes });
  return PARTS;
}
