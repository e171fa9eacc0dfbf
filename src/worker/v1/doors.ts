/** The other doors over HTTP, as far as the document tells of them: docs/ has the rest. */
import type { DocumentOperation } from "./document.ts";

interface Door extends DocumentOperation {
  readonly method: string;
  readonly path: string;
}

const token = (scope: string): DocumentOperation["security"] => [
  { bearer: [scope] },
  { ticket: [scope] },
];

const problem = { description: "A problem.", content: { "application/problem+json": {} } };

const channel = {
  name: "channel",
  in: "path",
  required: true,
  description: "1 to 255 bytes, percent-encoded.",
  schema: { type: "string" },
} as const;

const shell = (source: string): DocumentOperation["x-codeSamples"] => [{ lang: "Shell", source }];

const tags = ["other doors"];

export const DOORS: readonly Door[] = [
  {
    method: "GET",
    path: "/channels/{channel}",
    operationId: "listen",
    tags,
    summary: "Listen to a channel with Server-Sent Events",
    description:
      "A payload that is UTF-8 without a carriage return comes as it is, any other in base64 as an event named `base64`. The name may have `/` as it is.",
    security: token("subscribe"),
    parameters: [
      channel,
      {
        name: "lastEventId",
        in: "query",
        required: false,
        description:
          "As the header `Last-Event-ID`: the number of the last message that was seen; those after it are sent again, as far as they are kept.",
        schema: { type: "string" },
      },
    ],
    responses: {
      200: { description: "Messages, as they come.", content: { "text/event-stream": {} } },
      default: problem,
    },
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
    responses: {
      200: { description: "What became of it.", content: { "application/json": {} } },
      default: problem,
    },
    "x-codeSamples": shell(
      'curl "$SERVER/channels/news" \\\n  -H "Authorization: Bearer $TOKEN" \\\n  -d hello',
    ),
  },
  {
    method: "GET",
    path: "/v1/overview/live",
    operationId: "watchOverview",
    tags,
    summary: "What the namespace is doing, live, with Server-Sent Events",
    description:
      "Each event is the answer of `GET /v1/overview`; the first comes at once. The stream ends with its token. There may be 32 in one place, else the answer is 503 `listeners_max`.",
    security: token("admin"),
    parameters: [
      {
        name: "intervalMs",
        in: "query",
        required: false,
        description: "From event to event, in ms: 1,000 to 60,000, and 1,000 unless given.",
        schema: { type: "integer", minimum: 1000, maximum: 60_000, default: 1000 },
      },
    ],
    responses: {
      200: { description: "Figures, as they come.", content: { "text/event-stream": {} } },
      default: problem,
    },
    "x-codeSamples": shell(
      'curl -N "$SERVER/v1/overview/live?intervalMs=5000" \\\n  -H "Authorization: Bearer $TOKEN"',
    ),
  },
  {
    method: "GET",
    path: "/metrics",
    operationId: "metrics",
    tags,
    summary: "Metrics of the namespace, as Prometheus scrapes them",
    security: token("admin"),
    parameters: [],
    responses: {
      200: { description: "Text, version 0.0.4.", content: { "text/plain": {} } },
      default: problem,
    },
    "x-codeSamples": shell('curl "$SERVER/metrics" \\\n  -H "Authorization: Bearer $TOKEN"'),
  },
  {
    method: "GET",
    path: "/health",
    operationId: "health",
    tags,
    summary: "Whether the deployment is configured",
    security: [],
    parameters: [],
    responses: {
      200: { description: "It is.", content: { "application/json": {} } },
      default: problem,
    },
    "x-codeSamples": shell('curl "$SERVER/health"'),
  },
];
