/** The release before this one. Its code is in test/data: scripts/release-bundle.ts has written it. */
export const BEFORE = "0.4.0";

/** What a run can begin with. */
export type ReleaseName = "today" | typeof BEFORE;
