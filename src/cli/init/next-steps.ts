/** What a person does after `init` has put Throttr into a Worker: the lines of a first limit, and how to run it. */
import { MODULE } from "./exported-classes.ts";
import { DEV_PORT, OPEN } from "./new-project.ts";

/** What the lines of a first limit import. */
const IMPORTS: Readonly<Record<string, readonly string[]>> = {
  "throttr-edge/dashboard": ["dashboard"],
  "throttr-edge/fetch": ["guard"],
  "throttr-edge/ratelimit": ["RateLimiter", "tokenBucket"],
  [MODULE]: ["routeThrottr", "throttr"],
};

/**
 * The lines to print.
 *
 * @param worker its name in the configuration, which becomes the namespace; any where it has none
 * @param main the Worker's module, as a person writes its path
 * @param declared names that the module has already
 */
export function nextSteps(
  worker: string | undefined,
  main: string,
  declared: readonly string[],
): string[] {
  const namespace = worker ?? "my-app";
  const imports = Object.entries(IMPORTS).flatMap(([module, names]) => {
    const missing = names.filter((name) => !declared.includes(name));
    return missing.length === 0 ? [] : [`import { ${missing.join(", ")} } from "${module}";`];
  });
  return [
    `Next: paste a first limit into ${main}, above "export default":`,
    "",
    ...[
      ...imports,
      "",
      "const limiter = new RateLimiter({",
      `  throttr: throttr({ namespace: "${namespace}" }),`,
      '  name: "api",',
      "  strategy: tokenBucket({ burst: 10, rate: 1 }),",
      "});",
    ].map(indented),
    "",
    "and at the start of its fetch handler, which has the arguments request, env and ctx:",
    "",
    ...[
      "const answer = await routeThrottr(request, env, ctx, { dashboard });",
      "if (answer !== null) return answer;",
      'const key = request.headers.get("cf-connecting-ip") ?? "local";',
      "const { response } = await guard(request, { limiter, key });",
      "if (response !== null) return response;",
    ].map(indented),
    "",
    "Then run it, with the dashboard and the API open on this machine:",
    "",
    ...[
      `npx wrangler dev --port ${DEV_PORT} ${OPEN}`,
      `# http://127.0.0.1:${DEV_PORT}/throttr-edge/dashboard?namespace=${namespace}#limits`,
    ].map(indented),
    "",
    "Rights of your users, tokens and all calls: docs/embedding.md of the repository",
  ];
}

const indented = (line: string): string => (line === "" ? line : `  ${line}`);
