/** Calls that fail: what they say. */

/** The message of the error that a call fails with; "" when it succeeds. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return "";
}
