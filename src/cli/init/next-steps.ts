/** What a person does after `init` has put Throttr into a Worker: the lines of a first limit, and how to run it. */
import { DEV_PORT, OPEN } from "./new-project.ts";

/**
 * The lines to print.
 *
 * @param worker its name in the configuration, which becomes the namespace; any where it has none
 * @param main the Worker's module, as a person writes its path
 * @param isOwn the module makes `throttr` and `routeThrottr` itself, for classes with names of its own
 */
export function nextSteps(worker: string | undefined, main: string, isOwn: boolean): string[] {
  const namespace = worker ?? "my-app";
  const imported = isOwn ? [] : ['import { routeThrottr, throttr } from "throttr-edge/worker";'];
  return [
    `Next: paste a first limit into ${main}, above "export default":`,
    "",
    ...[
      'import { dashboard } from "throttr-edge/dashboard";',
      'import { guard } from "throttr-edge/fetch";',
      'import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";',
      ...imported,
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
