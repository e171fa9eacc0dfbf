/** Renders pages. React Router's own entry needs Node; this one has what the Workers runtime has. */
import { renderToReadableStream } from "react-dom/server";
import { ServerRouter, type EntryContext } from "react-router";

export default async function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  context: EntryContext,
): Promise<Response> {
  const body = await renderToReadableStream(<ServerRouter context={context} url={request.url} />, {
    signal: request.signal,
  });
  headers.set("content-type", "text/html");
  return new Response(body, { headers, status });
}
