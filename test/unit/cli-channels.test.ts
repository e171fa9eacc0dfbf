/** `publish --lines`: which messages it makes of the bytes of standard input. */
import { expect, it } from "vitest";
import type { Clients } from "../../src/cli/connection.ts";
import { ExitCode } from "../../src/cli/exit-code.ts";
import { carryOut } from "../../src/cli/program.ts";
import { fakeHost } from "../support/cli/host.ts";

/** Publishes lines, and returns the payloads as Latin-1 text, a character for each byte. */
async function published(input: string): Promise<{ exitCode: number; payloads: string[] }> {
  const payloads: string[] = [];
  const client = {
    publish: (_channel: Uint8Array, payload: Uint8Array): Promise<boolean> => {
      payloads.push(Buffer.from(payload).toString("latin1"));
      return Promise.resolve(true);
    },
  };
  const { signal } = new AbortController();
  const exitCode = await carryOut(["publish", "news", "--lines"], {
    host: fakeHost({ input: Buffer.from(input, "latin1") }),
    clients: { clientOf: () => client } as unknown as Clients,
    flags: {},
    signal,
    renewSignal: () => signal,
    isPrompt: false,
    exitCode: ExitCode.done,
  });
  return { exitCode, payloads };
}

it.each([
  ["a\nb\n", ["a", "b"]],
  ["a\r\nb", ["a", "b"]],
  ["a\n\n\r\nb\n", ["a", "", "", "b"]],
  ["50 %\rdone\n\xff\xfe\n", ["50 %\rdone", "\xff\xfe"]],
  ["", []],
])("lines are published as their bytes are: %j", async (input, payloads) => {
  expect(await published(input)).toEqual({ exitCode: ExitCode.done, payloads });
});

it("a line that no server would take is a wrong argument", async () => {
  const { exitCode, payloads } = await published(`a\n${"x".repeat((8 << 20) + 1)}`);
  expect(exitCode).toBe(ExitCode.usage);
  expect(payloads.length).toBeLessThanOrEqual(1);
});
