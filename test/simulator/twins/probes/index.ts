/** The classes of the probes: small Durable Objects that are loaded unchanged in workerd and in the simulator. */
import { visit } from "./door.ts";

export { Bell } from "./bell.ts";
export { Ear } from "./ear.ts";
export { Holder } from "./holder.ts";
export { Host } from "./host.ts";
export { FaultyStarter, SlowStarter, ThrowingStarter } from "./starters.ts";
export { Writer } from "./writer.ts";

export default { fetch: visit };
