/** A page that grants each caller five requests at once and one more each second. */
import { data } from "react-router";
import { guard } from "throttr-edge/fetch";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { throttr } from "throttr-edge/worker";
import type { Route } from "./+types/home";

const limiter = new RateLimiter({
  throttr: throttr({ namespace: "react-router" }),
  name: "page",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
});

export async function loader({ request }: Route.LoaderArgs) {
  const key = request.headers.get("cf-connecting-ip") ?? "local";
  const { response, headers, result } = await guard(request, { limiter, key });
  if (response !== null) throw response;
  return data({ remaining: result.remaining }, { headers });
}

/** The page has the header fields of its loader, also where that has refused. */
export function headers({ loaderHeaders, errorHeaders }: Route.HeadersArgs) {
  return errorHeaders ?? loaderHeaders;
}

export default function Home({ loaderData }: Route.ComponentProps) {
  return <p>Hello. {loaderData.remaining} requests left.</p>;
}

export function ErrorBoundary() {
  return <p>Too many requests.</p>;
}
