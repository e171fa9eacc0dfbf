/** The other doors over HTTP, as far as the document tells of them: docs/ has the rest. */
import { PROBLEM_TYPE, type DocumentOperation } from "./document.ts";

/** A route that the JSON door does not serve: its bodies or answers are streams, or not JSON. */
interface Door extends DocumentOperation {
  readonly method: string;
  readonly path: string;
}

/** A token with a scope, by either way. */
const token = (scope: string): DocumentOperation["security"] => [
  { bearer: [scope] },
  { ticket: [scope] },
];

/** The answer with 200, of a content type, and problems. These doors don't list their codes one by one. */
const responses = (description: string, type: string): DocumentOperation["responses"] => ({
  200: { description, content: { [type]: {} } },
  default: { description: "A problem.", content: { [PROBLEM_TYPE]: {} } },
});

/** The name of a channel in the path. */
const channel = {
  name: "channel",
  in: "path",
  required: true,
  description: "1 to 255 bytes, percent-encoded.",
  schema: { type: "string" },
} as const;

/** One command as code samples. */
const shell = (source: string): DocumentOperation["x-codeSamples"] => [{ lang: "Shell", source }];

const tags = ["other doors"];

/** In the order of the document, behind the routes of `/v1`. WebSockets are missing: OpenAPI cannot describe them. */
export const DOORS: readonly Door[] = [
  {
    method: "GET",
    path: "/channels/{channel}",
    operationId: "listen",
    tags,
    summary: "Listen to a channel with Server-Sent Events",
    description:
      "A payload that is UTF-8 without a carriage return arrives unchanged. Any other payload arrives in base64, in an event named `base64`. A `/` in the name need not be escaped.",
    security: token("subscribe"),
    parameters: [
      channel,
      {
        name: "lastEventId",
        in: "query",
        required: false,
        description:
          "Number of the last message that the listener has seen, as in the header `Last-Event-ID`. The server sends the later messages again if it still has them.",
        schema: { type: "string" },
      },
    ],
    responses: responses("The messages, as they are published.", "text/event-stream"),
    "x-codeSamples": shell(
      'curl -N "$SERVER/channels/news" \\\n  -H "Authorization: Bearer $TOKEN"',
    ),
  },
  {
    method: "POST",
    path: "/channels/{channel}",
    operationId: "post",
    tags,
    summary: "Publish the body as a message",
    security: token("publish"),
    parameters: [channel],
    requestBody: { required: true, content: { "*/*": {} } },
    responses: responses("How many subscriptions received it, and its number.", "application/json"),
    "x-codeSamples": shell(
      'curl "$SERVER/channels/news" \\\n  -H "Authorization: Bearer $TOKEN" \\\n  -d hello',
    ),
  },
  {
    method: "GET",
    path: "/v1/overview/live",
    operationId: "watchOverview",
    tags,
    summary: "Show what the namespace is doing, live, with Server-Sent Events",
    description:
      "Each event has the answer of `GET /v1/overview`. The first one arrives at once. The stream ends when its token expires. A location serves at most 32 streams; further requests get a 503 `listeners_max`.",
    security: token("admin"),
    parameters: [
      {
        name: "intervalMs",
        in: "query",
        required: false,
        description: "Time between two events, in ms: 1,000 to 60,000. Default: 1,000.",
        schema: { type: "integer", minimum: 1000, maximum: 60_000, default: 1000 },
      },
    ],
    responses: responses("The figures, as they change.", "text/event-stream"),
    "x-codeSamples": shell(
      'curl -N "$SERVER/v1/overview/live?intervalMs=5000" \\\n  -H "Authorization: Bearer $TOKEN"',
    ),
  },
  {
    method: "GET",
    path: "/metrics",
    operationId: "metrics",
    tags,
    summary: "Show the metrics of the namespace to Prometheus",
    security: token("admin"),
    parameters: [
      {
        name: "namespace",
        in: "query",
        required: false,
        description: "`*`: of up to 100 namespaces, with a token for all of them.",
        schema: { type: "string", enum: ["*"] },
      },
      {
        name: "after",
        in: "query",
        required: false,
        description: "With `namespace=*`: only namespaces whose names follow this one.",
        schema: { type: "string" },
      },
    ],
    responses: responses("Text, version 0.0.4.", "text/plain"),
    "x-codeSamples": shell('curl "$SERVER/metrics" \\\n  -H "Authorization: Bearer $TOKEN"'),
  },
  {
    method: "GET",
    path: "/health",
    operationId: "health",
    tags,
    summary: "Check whether the deployment is configured",
    security: [],
    parameters: [],
    responses: responses("The deployment is configured.", "application/json"),
    "x-codeSamples": shell('curl "$SERVER/health"'),
  },
];
