/** The tools of projects that this command line creates or runs, in the versions that this release is tested with. */
export const TOOLS = {
  "@cloudflare/workers-types": "5.20261117.1",
  typescript: "7.0.2",
  wrangler: "4.155.0",
} as const;

/** A Node for projects on machines with an older one than wrangler starts with: npm scripts find it first. */
const NODE = { node: "24.21.0" } as const;
const WRANGLER_NODE_MIN = [22, 12] as const;

/** The tools of a project on a machine with this version of Node, such as `20.20.2`. */
export function toolsFor(nodeVersion: string): Readonly<Record<string, string>> {
  const [major = 0, minor = 0] = nodeVersion.split(".").map(Number);
  const [majorMin, minorMin] = WRANGLER_NODE_MIN;
  const isOld = major < majorMin || (major === majorMin && minor < minorMin);
  return isOld ? { ...TOOLS, ...NODE } : TOOLS;
}
