/** The tools of projects that this command line creates or runs, in the versions that this release is tested with. */
export const TOOLS = {
  "@cloudflare/workers-types": "5.20261117.1",
  typescript: "7.0.2",
  wrangler: "4.155.0",
} as const;
