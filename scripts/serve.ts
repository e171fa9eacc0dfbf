/** `npm run serve`: `throttr-edge serve` from the checkout. */
import { argv } from "node:process";

argv.splice(2, 0, "serve");
await import("../src/cli/main.ts");
