/** The bindings and variables that Hono passes to every route. */
import type { Environment } from "../base/environment.ts";
import type { Access } from "../base/access.ts";

export interface App {
  Bindings: Environment;
  Variables: {
    /** The caller's access; set before a body is read. */
    access: Access;
    /** The whole body; set by `readBody`. */
    body: Uint8Array;
  };
}
