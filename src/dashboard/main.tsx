/**
 * The dashboard: a page of static files of the same Worker, at `/dashboard`.
 *
 * The files are not behind a token: they are the same for everybody, hold no secret and show nothing by
 * themselves. What they show comes from the API, which asks for the token with each request. So nobody
 * needs to log in to get a page that asks to log in, and the platform serves it without waking a Worker.
 */
import { render } from "hono/jsx/dom";
import { App, listenToPage } from "./app.tsx";
import { openSession } from "./session.ts";

render(<App />, document.getElementById("app")!);
listenToPage();
void openSession();
