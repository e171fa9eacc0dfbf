/**
 * The dashboard: a page of static files of the same Worker, at `/dashboard`.
 *
 * The files need no token: they are the same for all users and hold no secret. All data comes from the API, which checks
 * the token of each request. So the page can ask for a token by itself, and the platform serves it without running the
 * Worker.
 */
import { render } from "hono/jsx/dom";
import { App, listenToPage } from "./app.tsx";
import { openSession } from "./session.ts";

render(<App />, document.getElementById("app")!);
listenToPage();
void openSession();
