import { errorText } from "../lab.ts";
import { note } from "../note.ts";
import { Probe, type Env } from "./env.ts";

/** Has WebSockets that hibernate, at `/`, and others, at `/plain`. A message says what to do with it. */
export class Host extends Probe {
  readonly party = "host";

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const attachments = ctx
      .getWebSockets()
      .map((socket) => attachmentText(socket) + stateText(socket));
    note("host", `starts with ${attachments.length === 0 ? "no sockets" : attachments.join(", ")}`);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  async prepare(): Promise<void> {
    this.createTables();
    await this.ctx.storage.sync();
  }

  override fetch(request: Request): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    if (new URL(request.url).pathname === "/plain") this.#acceptPlain(server);
    else {
      this.ctx.acceptWebSocket(server, ["tag"]);
      server.serializeAttachment({ count: 1 });
    }
    return new Response(null, { status: 101, webSocket: client });
  }

  #acceptPlain(server: WebSocket): void {
    server.accept();
    server.addEventListener("message", ({ data }) => {
      note("plain socket", String(data));
      server.send(`re ${String(data)}`);
    });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (typeof message !== "string") {
      this.note(`${message.byteLength} bytes`);
      return;
    }
    this.note(`${message}, ${attachmentText(socket)}${stateText(socket)}`);
    switch (message) {
      case "attach": {
        const attachment = { count: 2 };
        socket.serializeAttachment(attachment);
        attachment.count = 3;
        break;
      }
      case "attach too much":
        try {
          socket.serializeAttachment("x".repeat(16_385));
        } catch (error) {
          this.note(error instanceof Error ? error.name : "");
        }
        break;
      case "slow":
        await scheduler.wait(20);
        break;
      case "throw":
        throw new Error("in the handler");
      case "abort":
        return this.ctx.abort("by a message");
      case "doom":
        this.writeDoomed();
        break;
      case "close":
        socket.close(4000, "by the host");
        this.note(`state ${socket.readyState}, ${this.socketCount()} sockets`);
        break;
      default:
    }
    try {
      socket.send(`re ${message}`);
    } catch (error) {
      this.note(errorText(error));
    }
  }

  override webSocketClose(
    socket: WebSocket,
    code: number,
    reason: string,
    wasClean: boolean,
  ): void {
    const how = `${code} ${reason} ${wasClean ? "clean" : "unclean"}`;
    this.note(
      `closed ${how}, ${attachmentText(socket)}, state ${socket.readyState}, ${this.socketCount()} sockets`,
    );
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    const how = `${attachmentText(socket)}, state ${socket.readyState}, ${this.socketCount()} sockets`;
    this.note(`socket fails: ${errorText(error)}, ${how}`);
    try {
      socket.send("in the handler");
    } catch (error) {
      this.note(errorText(error));
    }
  }

  socketCount(): number {
    return this.ctx.getWebSockets("tag").length;
  }

  push(line: string): void {
    for (const socket of this.ctx.getWebSockets()) socket.send(line);
  }

  abort(reason: string): void {
    this.ctx.abort(reason);
  }

  startTimers(): void {
    setTimeout(() => this.note("timer"), 50);
    this.watch("wait", scheduler.wait(50));
  }

  holdByWaitUntil(): void {
    this.ctx.waitUntil(scheduler.wait(50).then(() => this.note("goes on in waitUntil")));
  }

  async block(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(async () => {
      this.note("blocks");
      await scheduler.wait(50);
      this.note("block ends");
    });
  }
}

/** Only of a socket that is not open. */
const stateText = ({ readyState }: WebSocket): string =>
  readyState === WebSocket.OPEN ? "" : `, state ${readyState}`;

function attachmentText(socket: WebSocket): string {
  const { count } = socket.deserializeAttachment() as { count: number };
  return `attachment ${count}`;
}
