/** The tools of projects that this command line creates or runs, in the versions that this release is tested with. */
export const TOOLS = {
  "@cloudflare/workers-types": "5.20261117.1",
  typescript: "7.0.2",
  wrangler: "4.155.0",
} as const;

/** A Node for projects on machines with an older one than wrangler starts with: npm scripts find it first. */
const NODE = { node: "24.21.0" } as const;
/** The oldest Node that the tested wrangler runs on. */
export const NODE_FOR_WRANGLER = "22.12";

/** The tools of a project on a machine with this version of Node, such as `20.20.2`. */
export function toolsFor(nodeVersion: string): Readonly<Record<string, string>> {
  return isNodeFor(nodeVersion) ? TOOLS : { ...TOOLS, ...NODE };
}

/**
 * Whether wrangler starts on a version of Node.
 *
 * @param range the versions that an installed wrangler asks for, such as `>=22.0.0`; those of the tested one unless given
 */
export function isNodeFor(version: string, range = `>=${NODE_FOR_WRANGLER}`): boolean {
  const [, majorMin = "0", minorMin = "0"] = /^>=\s*(\d+)(?:\.(\d+))?/.exec(range) ?? [];
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > Number(majorMin) || (major === Number(majorMin) && minor >= Number(minorMin));
}
