/** The server has lost a write, made one up, answered wrongly, or not at all. */
export class CrashViolation extends Error {
  override readonly name = "CrashViolation";
}
