/** The variable TCP_PORTS: what it may say, and that no port opens by accident. */
import { describe, expect, it } from "vitest";
import { ALL_SCOPES } from "../../src/base/access.ts";
import { parseSettings } from "../../src/base/settings.ts";
import { accessOfPort, refusalOfPort, tcpPort, tcpPorts } from "../../src/worker/ports.ts";

const settingsOf = (variables: Readonly<Record<string, string>>) => parseSettings({ ...variables });

describe("TCP_PORTS", () => {
  it.each([
    ["9000=7.3", "7.3", 2, null],
    ["9000=7.3/uint64", "7.3", 8, null],
    ["9000=7.3/uint8@orders", "7.3", 1, "orders"],
    ["9000=2@a.b_c-1", "2", 8, "a.b_c-1"],
    [" 1=edge , 9000=7.1/uint16@x,", "7.1", 2, "x"],
  ])("TCP_PORTS is read: %s", (TCP_PORTS, dialect, valueSize, namespace) => {
    const port = tcpPort(9000, settingsOf({ TCP_PORTS }));
    expect(port).toMatchObject({ protocol: { dialect, valueSize }, namespace });
    expect(tcpPorts(settingsOf({ TCP_PORTS })).at(-1)).toEqual(port);
  });

  it("TCP_PORTS opens only the ports that it lists", () => {
    expect(tcpPort(900, settingsOf({ TCP_PORTS: "9000=7.3" }))).toBeUndefined();
    expect(tcpPort(9000, settingsOf({ TCP_PORTS: "" }))).toBeUndefined();
    expect(tcpPorts(settingsOf({ TCP_PORTS: "" }))).toEqual([]);
  });

  it.each([
    ["9000", "expected port=dialect, a port from 1 to 65535, such as 9002=7.3/uint16"],
    ["0=7.3", "expected port=dialect"],
    ["09000=7.3", "expected port=dialect"],
    ["65536=7.3", "expected port=dialect"],
    ["9000=8.0", "expected one of 7.3, 7.1, 5 with /uint8,"],
    ["9000=7.3/uint128", "expected one of 7.3, 7.1, 5 with /uint8,"],
    ["9000=7.3/uint8/uint8", "expected one of 7.3, 7.1, 5 with /uint8,"],
    ["9000=toString", "expected one of 7.3, 7.1, 5 with /uint8,"],
    ["9000=2/uint8", "expected one of 7.3, 7.1, 5 with /uint8,"],
    ["9000=7.3@", "behind the @: expected 1 to 64 letters"],
    ["9000=7.3@a/b", "behind the @: expected 1 to 64 letters"],
    ["9000=7.3@a@b", "behind the @: expected 1 to 64 letters"],
    [`9000=7.3@${"a".repeat(65)}`, "behind the @: expected 1 to 64 letters"],
    ["9000=7.3@a, 9001=7.3, 9000=2@b", "9000 is listed twice"],
  ])("TCP_PORTS %s is refused", (TCP_PORTS, message) => {
    expect(() => tcpPorts(settingsOf({ TCP_PORTS }))).toThrow(
      `config_invalid: TCP_PORTS: ${message.startsWith("9000 is") ? "" : `${TCP_PORTS}: `}${message}`,
    );
  });
});

describe("access to a port", () => {
  const refusal = (ACCESS: string, entry: string): string | null => {
    const settings = settingsOf({ ACCESS, TCP_PORTS: entry });
    return refusalOfPort(tcpPort(9000, settings), settings);
  };

  it("a port lets connections in when access is open or its namespace is named", () => {
    expect(refusal("open", "9000=7.3")).toBeNull();
    expect(refusal("open", "9000=7.3@orders")).toBeNull();
    expect(refusal("token", "9000=7.3@orders")).toBeNull();
    expect(refusal("token", "9000=7.3")).toBe("access_not_open");
    expect(refusal("token", "9001=7.3@orders")).toBe("port_unknown");
  });

  it("the default ports let no connection in without access", () => {
    const settings = parseSettings({});
    const ports = tcpPorts(settings);
    expect(ports.length).toBeGreaterThan(0);
    for (const port of ports) expect(refusalOfPort(port, settings)).not.toBeNull();
  });

  it("a connection to a port may do everything in its namespace, and nothing in another", () => {
    const access = (ACCESS: string, TCP_PORTS: string) => {
      const settings = settingsOf({ ACCESS, TCP_PORTS });
      return accessOfPort(tcpPort(9000, settings)!, settings);
    };
    const everything = {
      scopes: ALL_SCOPES,
      keyPrefixes: [],
      channelPrefixes: [],
      expiresAtMs: null,
    };
    expect(access("token", "9000=7.3@orders")).toEqual({ namespace: "orders", ...everything });
    expect(access("open", "9000=7.3@orders")).toEqual({ namespace: "orders", ...everything });
    expect(access("open", "9000=7.3")).toEqual({ namespace: "default", ...everything });
    expect(access("token", "9000=7.3")).toBeNull();
  });
});
