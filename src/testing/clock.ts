/** Moves the time of a server of a test: calls the clock that only the build for tests has (`src/test-worker`). */

/** Ten years: dates stay within what the runtime can tell. */
const ADVANCE_MS_MAX = 10 * 365 * 86_400_000;

/** The Worker's name among those of a test. */
export const WORKER_NAME = "throttr-edge";
const BINDING = "TEST_CLOCK";
/** The Durable Object that moves the time, as miniflare has to be told. */
export const CLOCK_OBJECT = { [BINDING]: { className: "TestClock", useSQLite: true } };

/** What `advanceClock` needs of miniflare, of any version. */
export interface TestRuntime {
  getDurableObjectNamespace(bindingName: string, workerName?: string): Promise<unknown>;
}

interface Clocks {
  idFromName(name: string): unknown;
  get(id: unknown): { advance(ms: number): Promise<void> };
}

/**
 * Moves the time of a server ahead that `throttrWorker` describes: as `TestServer.advance`, for a runtime of your own.
 *
 * @param runtime where the server runs, as the Worker `throttr-edge`
 * @param ms whole milliseconds, 0 to 315,360,000,000 (ten years)
 * @throws RangeError for another number
 *
 * @example
 * await advanceClock(runtime, 60_000);
 */
export async function advanceClock(runtime: TestRuntime, ms: number): Promise<void> {
  if (!Number.isInteger(ms) || ms < 0 || ms > ADVANCE_MS_MAX) {
    throw new RangeError(
      `time goes ahead by a whole number of ms from 0 to ${ADVANCE_MS_MAX}, and never back: got ${ms}`,
    );
  }
  const clocks = (await runtime.getDurableObjectNamespace(BINDING, WORKER_NAME)) as Clocks;
  await clocks.get(clocks.idFromName("")).advance(ms);
}
