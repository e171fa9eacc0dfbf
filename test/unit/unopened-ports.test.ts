/** What `npm start` says of ports that it does not open. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { unopenedPortsWarning } from "../../scripts/unopened-ports.ts";

const config = readFileSync("wrangler.toml", "utf8");
const withEntry = (entry: string): string =>
  config.replace(/^(TCP_PORTS = ".*)"/m, `$1, ${entry}"`);

it("npm start opens all ports that wrangler.toml names", () => {
  expect(unopenedPortsWarning(config, "")).toBeNull();
  expect(unopenedPortsWarning(config, "TOKEN_SECRET=try-me\n")).toBeNull();
});

it.each([
  ["wrangler.toml", withEntry("9071=7.1/uint16"), ""],
  [".dev.vars", config, 'TCP_PORTS="9000=7.3@orders, 9071=7.1/uint16"\n'],
  [".dev.vars without quotes", config, "TOKEN_SECRET=try-me\nTCP_PORTS=9071=7.1/uint16\n"],
])("npm start warns of a further port in %s", (_, text, localVariables) => {
  const warning = unopenedPortsWarning(text, localVariables);
  expect(warning).toContain("ports of TCP_PORTS: 9071=7.1/uint16.");
  expect(warning).toContain("It opens 9000, ");
});

it("npm start does not warn of ports that .dev.vars leaves out", () => {
  expect(unopenedPortsWarning(withEntry("9071=7.1/uint16"), "TCP_PORTS=9000=7.3\n")).toBeNull();
});
