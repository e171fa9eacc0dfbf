/** What the routes have at hand. */
import type { Access } from "../base/access.ts";

export interface App {
  Bindings: Env;
  Variables: {
    /** Of a caller who is known; set before a body is read. */
    access: Access;
    /** Of a request whose body has been read. */
    body: Uint8Array;
  };
}
