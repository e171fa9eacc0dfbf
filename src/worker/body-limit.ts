/** Refuses bodies that are longer than a variable allows. */
import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { readSettings } from "../objects/settings.ts";
import type { App } from "./app.ts";
import { Problem } from "./problem.ts";

/** @param what has so many bytes, for the message */
export function limitBody(
  variable: "BODY_BYTES_MAX" | "FRAME_BYTES_MAX",
  what: string,
): MiddlewareHandler<App> {
  return async (c, next) => {
    const bytesMax = readSettings(c.env)[variable];
    return await bodyLimit({
      maxSize: bytesMax,
      onError: () =>
        Problem.of("body_too_large", `${what} may have ${bytesMax} bytes`).toResponse(),
    })(c, next);
  };
}
