/** `npm start`: the server on loopback, every door open, data kept in `.wrangler/state`. */
import { startServer } from "./server.ts";

const server = startServer({ stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => server.process.kill(signal));
}
server.process.on("exit", (code) => process.exit(code ?? 0));
