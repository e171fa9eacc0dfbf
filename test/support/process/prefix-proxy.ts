/**
 * A proxy that serves a server below a prefix, as a Worker that embeds it does: `/edge/v1/records` is `/v1/records` of
 * the server. All other paths are a 404, and are kept, as a page that asks for one has forgotten its prefix.
 *
 * It can also stand for an application with sessions: a request with the cookie `session` gets the token that the cookie
 * stands for.
 */
import { createServer, request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { once } from "node:events";

export interface PrefixProxy {
  readonly url: string;
  /** Paths that were asked for outside the prefix, without those that browsers ask for by themselves. */
  readonly strays: string[];
  close(): Promise<void>;
}

export async function startPrefixProxy(
  port: number,
  target: string,
  { prefix, tokens = {} }: { prefix: string; tokens?: Readonly<Record<string, string>> },
): Promise<PrefixProxy> {
  const strays: string[] = [];
  const inside = (url: string): string | null => {
    const { pathname } = new URL(url, "http://proxy");
    if (pathname.startsWith(`${prefix}/`)) return url.slice(prefix.length);
    if (pathname !== "/favicon.ico") strays.push(pathname);
    return null;
  };
  const headersOf = ({ headers }: IncomingMessage): IncomingHttpHeaders => {
    const session = /\bsession=([^;]*)/.exec(headers.cookie ?? "")?.[1] ?? "";
    const token = tokens[session];
    return token === undefined ? headers : { ...headers, authorization: `Bearer ${token}` };
  };
  const optionsOf = (incoming: IncomingMessage) => ({
    method: incoming.method ?? "GET",
    headers: headersOf(incoming),
  });
  const server = createServer((incoming, outgoing) => {
    const path = inside(incoming.url!);
    if (path === null) {
      outgoing.writeHead(404).end();
      return;
    }
    const onward = request(target + path, optionsOf(incoming), (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
  server.on("upgrade", (incoming: IncomingMessage, socket) => {
    const path = inside(incoming.url!);
    if (path === null) {
      socket.end("HTTP/1.1 404 Not Found\r\n\r\n");
      return;
    }
    const onward = request(target + path, optionsOf(incoming));
    onward.on("upgrade", (answer, upstream) => {
      const { rawHeaders } = answer;
      const lines = rawHeaders.flatMap((name, i) =>
        i % 2 === 0 ? [`${name}: ${rawHeaders[i + 1]}`] : [],
      );
      socket.write(["HTTP/1.1 101 Switching Protocols", ...lines, "", ""].join("\r\n"));
      upstream.pipe(socket).pipe(upstream);
      upstream.on("error", () => socket.destroy());
      socket.on("error", () => upstream.destroy());
    });
    onward.on("response", ({ statusCode }) => socket.end(`HTTP/1.1 ${statusCode} Refused\r\n\r\n`));
    onward.on("error", () => socket.destroy());
    onward.end();
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${port}${prefix}`,
    strays,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
