/**
 * Where the server of this page is. The page is at `/dashboard` or `/docs` of a server of its own, or of a Worker that
 * serves it below a prefix, such as `/edge/dashboard`: so no address in the pages begins at the root of the origin.
 */

/** The folder that the page is in; no slash at its end. */
const BASE = new URL(".", location.href).href.replace(/\/$/, "");

/** The page is below a prefix: part of an application, whose session may be all that the server asks for. */
export const IS_PART = new URL(BASE).pathname !== "/";

/** @param path of the server, such as `/v1/records` */
export const urlOf = (path: string): string => BASE + path;
