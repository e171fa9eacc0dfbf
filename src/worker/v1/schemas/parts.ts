/**
 * What requests and answers of the JSON door look like.
 *
 * Requests are checked by these schemas; the OpenAPI document and the page are made from them. A message
 * says what is expected: what came is put behind it.
 */
import * as v from "valibot";
import { binaryBytes } from "../../wire/bytes.ts";
import {
  HOLDER_CURSOR_BYTES,
  LEASE_TTL_MS_MAX,
  SCAN_CURSOR_BYTES_MAX,
  SCAN_RECORDS_MAX,
  SEMAPHORE_NAME_BYTES_MAX,
  U32_MAX,
} from "../../wire/edge/command.ts";
import { Change } from "../../wire/throttr/requests.ts";
import { bytesOfBase64, bytesOfText, bytesOfUrlBase64 } from "../text.ts";

const U64_MAX = (1n << 64n) - 1n;
const U64_DIGITS = /^\d{1,20}$/;
/** What names of limits, of who is limited, and of quotas are made of. */
const LIMIT_NAME = /^[\w\-:.@+]{1,64}$/;
const NAME_BYTES_MAX = 255;
const QUOTAS_MAX = 8;
/** 58 years: so that what is stored of a window can be told. */
const WINDOW_MS_MAX = 1_844_674_407_370;
const GCRA_RATE_MAX = 1e9;
export const LIMIT_REQUESTS_MAX = 1000;

/** Turns a value into another one, or says what would have been expected. */
function turned<Input, Output>(turn: (input: Input) => Output | null, message: string) {
  return v.rawTransform<Input, Output>(({ dataset, addIssue, NEVER }) => {
    const output = turn(dataset.value);
    if (output !== null) return output;
    addIssue({ message });
    return NEVER;
  });
}

function integer(min: number, max: number, description: string) {
  const message = `an integer from ${min} to ${max} is expected`;
  return v.pipe(
    v.number(message),
    v.safeInteger(message),
    v.minValue(min, message),
    v.maxValue(max, message),
    v.description(description),
  );
}

function positive(max: number, description: string) {
  const range = max === Number.MAX_VALUE ? "above 0" : `above 0, at most ${max}`;
  const message = `a number ${range} is expected`;
  return v.pipe(
    v.number(message),
    v.gtValue(0, message),
    v.maxValue(max, message),
    v.description(description),
  );
}

/** An integer in a query. */
export function queryInteger(min: number, max: number, description: string) {
  const message = `an integer from ${min} to ${max} is expected`;
  return v.pipe(
    v.string(message),
    v.metadata({ type: "integer", minimum: min, maximum: max, description }),
    turned((digits) => {
      const value = /^\d{1,16}$/.test(digits) ? Number(digits) : -1;
      return Number.isSafeInteger(value) && value >= min && value <= max ? value : null;
    }, message),
  );
}

const TEXT = "text is expected, well-formed: bytes that are none go into the field in base64";
const BASE64 = "base64 is expected";

const text = (description: string) =>
  v.pipe(v.string(TEXT), v.description(description), turned(bytesOfText, TEXT));

const textOrNull = (description: string) =>
  v.pipe(v.nullable(v.pipe(v.string(TEXT), turned(bytesOfText, TEXT))), v.description(description));

const base64 = (description: string) =>
  v.pipe(
    v.string(BASE64),
    v.metadata({ contentEncoding: "base64", description }),
    turned(bytesOfBase64, BASE64),
  );

/** Bytes in a query are percent-encoded. They come as a binary string. */
const queryBytes = (bytesMin: number, description: string) => {
  const message = `${bytesMin} to ${NAME_BYTES_MAX} bytes are expected`;
  return v.pipe(
    v.string(message),
    v.description(`${description} Percent-encoded, byte by byte.`),
    turned((text) => {
      const isInRange = text.length >= bytesMin && text.length <= NAME_BYTES_MAX;
      return isInRange ? binaryBytes(text) : null;
    }, message),
  );
};

/** Refuses an object for one of its fields. */
function refusing<Fields extends object>(
  find: (fields: Fields) => { field: string; message: string } | null,
) {
  return v.rawCheck<Fields>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const found = find(input);
    if (found === null) return;
    const { field: key, message } = found;
    const value = (input as Record<string, unknown>)[key];
    const path = [{ type: "object", origin: "value", input, key, value }] as const;
    addIssue({ message, path: path as never });
  });
}

/** Of two fields an object must have one. */
function oneOf<Fields extends object>(...names: readonly [string, string]) {
  return refusing<Fields>((fields) =>
    names.filter((name) => Object.hasOwn(fields, name)).length === 1
      ? null
      : { field: names[0], message: `either ${names.join(" or ")} is expected` },
  );
}

const requiresOneOf = (...names: readonly string[]) => ({
  oneOf: names.map((name) => ({ required: [name] })),
});

const ttlMs = integer(1, Number.MAX_SAFE_INTEGER, "How long the record lives, in ms.");

const U64_MESSAGE =
  "an integer from 0 to 2^64 - 1 is expected, above 2^53 - 1 as a string of digits";

const U64 = v.pipe(
  v.union(
    [
      v.pipe(v.string(), v.regex(U64_DIGITS, U64_MESSAGE)),
      v.pipe(v.number(), v.safeInteger(U64_MESSAGE), v.minValue(0, U64_MESSAGE)),
    ],
    U64_MESSAGE,
  ),
  v.description(
    "0 to 2^64 - 1: a string of digits, or a number up to 2^53 - 1. A larger number would come rounded, and is refused.",
  ),
  turned((value: string | number) => {
    const whole = BigInt(value);
    return whole <= U64_MAX ? whole : null;
  }, U64_MESSAGE),
);

const U64Text = v.pipe(
  v.string(),
  v.regex(U64_DIGITS),
  v.description("0 to 2^64 - 1, always as a string of digits: numbers would be rounded."),
);

const CHANGES = Object.keys(Change) as (keyof typeof Change)[];

const LEASE_ID = /^[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}$/;
const leaseIdMessage = "a UUID is expected";
const leaseTtlMs = integer(
  1,
  LEASE_TTL_MS_MAX,
  "From now to the end of the lease, in ms: a day at most. What a caller held that is no more is in use until then.",
);
const resources = integer(1, U32_MAX, "How much is held.");

/** Bodies of requests. */
export const leaseBody = v.strictObject({
  resources: v.optional(resources, 1),
  maximum: integer(1, U32_MAX, "What all that is held together must not exceed."),
  ttlMs: leaseTtlMs,
  leaseId: v.exactOptional(
    v.pipe(
      v.string(leaseIdMessage),
      v.regex(LEASE_ID, leaseIdMessage),
      v.description("A UUID; a new one unless given."),
    ),
  ),
});

export const renewBody = v.strictObject({ ttlMs: leaseTtlMs });

export const insertBody = v.strictObject({ quota: U64, ttlMs });

export const incrementBody = v.strictObject({
  by: v.optional(U64, "1"),
  ttlMs: integer(
    1,
    Number.MAX_SAFE_INTEGER,
    "TTL of the counter where there is none yet, in ms; one that exists keeps its own.",
  ),
});

export const quotaBody = v.strictObject({ quota: U64 });
export const amountBody = v.strictObject({ amount: U64 });

export const ttlBody = v.strictObject({
  ttlMs: integer(0, Number.MAX_SAFE_INTEGER, "Milliseconds."),
  change: v.optional(
    v.pipe(
      v.picklist(CHANGES, `one of ${CHANGES.join(", ")} is expected`),
      v.description("`patch`: from now on; `increase`, `decrease`: the end moves by it."),
    ),
    "patch",
  ),
});

export const setBody = v.pipe(
  v.strictObject({
    value: v.exactOptional(text("The value, as text.")),
    valueBase64: v.exactOptional(base64("The value, in base64.")),
    ttlMs,
  }),
  v.metadata(requiresOneOf("value", "valueBase64")),
  oneOf("value", "valueBase64"),
);

/** The query that belongs to a raw value. */
export const rawQuery = v.strictObject({
  ttlMs: queryInteger(1, Number.MAX_SAFE_INTEGER, "TTL of a raw value, in ms."),
});

export const compareAndSetBody = v.pipe(
  v.strictObject({
    expected: v.exactOptional(
      textOrNull("What the buffer must hold; null: there must be no record."),
    ),
    expectedBase64: v.exactOptional(base64("What the buffer must hold, in base64.")),
    value: v.exactOptional(textOrNull("What it holds then; null: it is removed.")),
    valueBase64: v.exactOptional(base64("What it holds then, in base64.")),
    ttlMs: v.exactOptional(
      integer(
        1,
        Number.MAX_SAFE_INTEGER,
        "TTL of the new value, in ms; needed unless `value` is null.",
      ),
    ),
  }),
  v.metadata({
    allOf: [requiresOneOf("expected", "expectedBase64"), requiresOneOf("value", "valueBase64")],
  }),
  oneOf("expected", "expectedBase64"),
  oneOf("value", "valueBase64"),
  refusing((fields) =>
    fields.ttlMs === undefined && fields.value !== null
      ? { field: "ttlMs", message: "it is needed unless value is null" }
      : null,
  ),
);

const limitName = (description: string) => {
  const message = "1 to 64 of A-Z a-z 0-9 _ - : . @ + are expected";
  return v.pipe(v.string(message), v.regex(LIMIT_NAME, message), v.description(description));
};

const amount = (description: string) => integer(1, Number.MAX_SAFE_INTEGER, description);
const windowMs = positive(WINDOW_MS_MAX, "Length of the window, in ms.");
const burst = amount("Requests at once.");

/** What tells strategies apart. */
const is = <const Name extends string>(name: Name) => v.literal(name, `${name} is expected`);

const BucketStrategy = v.strictObject({
  strategy: v.picklist(["token_bucket", "leaky_bucket"]),
  burst,
  rate: positive(Number.MAX_VALUE, "Requests per second in the long run; need not be whole."),
});

const GcraStrategy = v.strictObject({
  strategy: is("gcra"),
  burst,
  rate: positive(GCRA_RATE_MAX, "Requests per second in the long run; need not be whole."),
});

const Quota = v.strictObject({
  name: limitName("Names the quota in results."),
  limit: amount("Requests in a window."),
  windowMs,
});

const quotasMessage = `1 to ${QUOTAS_MAX} quotas are expected`;

const FixedWindowStrategy = v.strictObject({
  strategy: is("fixed_window"),
  quotas: v.pipe(
    v.array(Quota, quotasMessage),
    v.minLength(1, quotasMessage),
    v.maxLength(QUOTAS_MAX, quotasMessage),
    v.description("All must have room. No two have one name, or one ratio of limit to window."),
  ),
});

const SlidingWindowStrategy = v.strictObject({
  strategy: is("sliding_window"),
  limit: amount("Requests in any window."),
  windowMs,
});

const CompositeStrategy = v.strictObject({
  strategy: is("composite"),
  primary: FixedWindowStrategy,
  secondary: v.variant(
    "strategy",
    [BucketStrategy, GcraStrategy],
    "one of token_bucket, leaky_bucket, gcra is expected",
  ),
});

const STRATEGIES = [
  "token_bucket",
  "leaky_bucket",
  "gcra",
  "fixed_window",
  "sliding_window",
  "composite",
] as const;
const OBJECT_MESSAGE = "an object with a field strategy is expected";
const strategyMessage = `one of ${STRATEGIES.join(", ")} is expected`;

const Strategy = v.variant(
  "strategy",
  [BucketStrategy, GcraStrategy, FixedWindowStrategy, SlidingWindowStrategy, CompositeStrategy],
  // An issue of the field has a path, one of a value that has no fields has not.
  ({ path }) => (path === undefined ? OBJECT_MESSAGE : strategyMessage),
);

const cost = v.optional(amount("What the request costs."), 1);

export const limitBody = v.strictObject({ strategy: Strategy, cost });
export const peekBody = v.strictObject({ strategy: Strategy });

const requestsMessage = `1 to ${LIMIT_REQUESTS_MAX} requests are expected`;

export const limitManyBody = v.strictObject({
  requests: v.pipe(
    v.array(
      v.strictObject({
        name: limitName("Names the limit."),
        key: limitName("Names who is limited."),
        strategy: Strategy,
        cost,
      }),
      requestsMessage,
    ),
    v.minLength(1, requestsMessage),
    v.maxLength(LIMIT_REQUESTS_MAX, requestsMessage),
  ),
});

export const resetQuery = v.strictObject({
  strategy: v.pipe(
    v.picklist(STRATEGIES, strategyMessage),
    v.description("The strategy of the limit: states of composites are stored apart."),
  ),
});

export const messageBody = v.pipe(
  v.strictObject({
    payload: v.exactOptional(text("The message, as text.")),
    payloadBase64: v.exactOptional(base64("The message, in base64.")),
  }),
  v.metadata(requiresOneOf("payload", "payloadBase64")),
  oneOf("payload", "payloadBase64"),
);

const prefix = v.exactOptional(queryBytes(0, "Names begin with it; all unless given."));
const limit = v.exactOptional(
  queryInteger(1, SCAN_RECORDS_MAX, `Rows of the page; ${SCAN_RECORDS_MAX} unless given.`),
);
export const queryCursor = (bytesMax: number, bytesMin = 0) =>
  v.exactOptional(
    v.pipe(
      v.string(),
      v.description("`cursor` of the page before."),
      turned((cursor) => {
        const bytes = bytesOfUrlBase64(cursor);
        if (bytes === null || bytes.length < bytesMin) return null;
        return bytes.length <= bytesMax ? bytes : null;
      }, "the cursor of a page is expected"),
    ),
  );

export const pageQuery = v.strictObject({ prefix, limit, cursor: queryCursor(NAME_BYTES_MAX) });
export const recordsQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SCAN_CURSOR_BYTES_MAX),
});
export const semaphoresQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SEMAPHORE_NAME_BYTES_MAX),
});
export const holdersQuery = v.strictObject({
  limit,
  cursor: queryCursor(HOLDER_CURSOR_BYTES, HOLDER_CURSOR_BYTES),
});

export const prefixQuery = v.strictObject({
  prefix: queryBytes(1, "Keys that begin with it are removed."),
});

export const adminBody = v.strictObject({
  namespace: v.pipe(
    v.string("the name of the namespace is expected"),
    v.description(
      "The name of the token's namespace, once more: `default` with `ACCESS=open`. So that it is no other one than meant.",
    ),
  ),
});

export const noQuery = v.strictObject({});

/** Answers. */
export const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
export const counted = (description: string) => v.pipe(count, v.description(description));

const remaining = {
  ttlMs: v.pipe(v.number(), v.description("Time left, in ms, rounded up.")),
  expiresAtMs: v.pipe(
    v.number(),
    v.description("End, in ms since the epoch by the server's clock, rounded up."),
  ),
};

const Remaining = v.strictObject(remaining);
const Counter = v.strictObject({ quota: U64Text, ...remaining });

const CounterChange = v.strictObject({
  applied: v.pipe(
    v.boolean(),
    v.description("False where the quota would have left 0 to 2^64 - 1: then it is as it was."),
  ),
  quota: U64Text,
  ...remaining,
});

export const quotaAnswer = v.strictObject({ quota: U64Text });

/** Of an answer: text, or base64 in another field. */
const textAnswer = (description: string) =>
  v.exactOptional(v.pipe(v.string(), v.description(description)));
const base64Answer = (description: string) =>
  v.exactOptional(v.pipe(v.string(), v.metadata({ contentEncoding: "base64", description })));

const Buffer = v.pipe(
  v.strictObject({
    value: textAnswer("The value, where it is UTF-8."),
    valueBase64: base64Answer("The value, where it is not."),
    ...remaining,
  }),
  v.metadata(requiresOneOf("value", "valueBase64")),
);

export const compareAndSetAnswer = v.strictObject({
  applied: v.boolean(),
  current: v.exactOptional(
    v.pipe(
      v.nullable(v.string()),
      v.description("Where it was not applied: what the buffer holds; null for no record."),
    ),
  ),
  currentBase64: base64Answer("`current`, where it is not UTF-8."),
});

const moment = (description: string) => v.pipe(v.nullable(v.number()), v.description(description));

const QuotaResult = v.strictObject({
  allowed: v.boolean(),
  limit: v.number(),
  remaining: counted("Further requests of cost 1 that it would allow at once."),
  reset: moment("In ms since the epoch; null where no wait helps."),
});

const LimitResult = v.strictObject({
  success: v.pipe(v.boolean(), v.description("Whether it is allowed.")),
  limit: v.pipe(v.number(), v.description("Of the quota with the smallest `remaining`.")),
  remaining: count,
  reset: moment(
    "In ms since the epoch. Of a refusal: when the same request is allowed if nobody else comes; null where no wait helps.",
  ),
  retryAfterMs: moment("0 where it is allowed; null where no wait helps."),
  reason: v.exactOptional(
    v.pipe(
      v.literal("cost_exceeds_limit"),
      v.description("Why it was refused, where it was not for want of room."),
    ),
  ),
  quotas: v.pipe(
    v.record(v.string(), QuotaResult),
    v.description(
      "By name: `default` where the strategy has one limit; of a composite `primary_…` and `secondary_default`.",
    ),
  ),
});

export const limitManyAnswer = v.strictObject({
  results: v.pipe(
    v.array(
      v.union([
        v.strictObject({ result: LimitResult }),
        v.strictObject({ error: v.strictObject({ code: v.string(), detail: v.string() }) }),
      ]),
    ),
    v.description("One for each request, in their order."),
  ),
});

export const messageAnswer = v.strictObject({
  delivered: counted("Subscriptions that took it."),
  sequence: v.pipe(
    v.nullable(count),
    v.description("Its number in the channel; null until somebody has listened over HTTP."),
  ),
});

export const cursor = v.pipe(
  v.nullable(v.string()),
  v.description("For the next page; null behind the last one."),
);

const keyFields = {
  key: textAnswer("The key, where it is UTF-8."),
  keyBase64: base64Answer("The key, where it is not."),
};
const expiresAtMs = remaining.expiresAtMs;

const ListedRecord = v.variant("kind", [
  v.strictObject({ ...keyFields, kind: v.literal("counter"), quota: U64Text, expiresAtMs }),
  v.strictObject({
    ...keyFields,
    kind: v.literal("buffer"),
    bytes: counted("Length of the value."),
    expiresAtMs,
  }),
]);

export const recordsAnswer = v.strictObject({
  records: v.pipe(
    v.array(ListedRecord),
    v.description(
      "In the order of their keys while every shard has at most 16,384, else in another one, each once. " +
        "May be empty, also where there are more.",
    ),
  ),
  cursor,
});

const Lease = v.strictObject({
  leaseId: v.pipe(v.string(), v.description("A UUID: what renews and releases it.")),
  name: textAnswer("Of the semaphore, where it is UTF-8."),
  nameBase64: base64Answer("Of the semaphore, where it is not."),
  resources: count,
  ...remaining,
});

const semaphoreState = {
  consumption: counted("All that is held together."),
  mostHeld: counted("The largest consumption in this interval."),
  maximum: counted("Deprecated: `mostHeld` under its former name."),
};
const Semaphore = v.strictObject(semaphoreState);

const ListedSemaphore = v.strictObject({
  name: textAnswer("The name, where it is UTF-8."),
  nameBase64: base64Answer("The name, where it is not."),
  ...semaphoreState,
});

export const semaphoresAnswer = v.strictObject({
  semaphores: v.pipe(v.array(ListedSemaphore), v.description("In the order of their names.")),
  cursor,
});

const Holder = v.strictObject({
  kind: v.pipe(
    v.picklist(["connection", "lease"]),
    v.description("A connection holds until it releases, or ends."),
  ),
  id: v.pipe(v.string(), v.description("A UUID: of the connection, or of the lease.")),
  resources: count,
  expiresAtMs: v.pipe(
    v.nullable(v.number()),
    v.description("Of a lease: its end, in ms since the epoch by the server's clock."),
  ),
});

export const holdersAnswer = v.strictObject({
  holders: v.pipe(
    v.array(Holder),
    v.description("Connections, then leases, each in the order of their ids."),
  ),
  cursor,
});

const ListedChannel = v.strictObject({
  channel: textAnswer("The name, where it is UTF-8."),
  channelBase64: base64Answer("The name, where it is not."),
  publishedBytes: counted("Bytes that its subscribers have published to it."),
  deliveredBytes: counted("Bytes that were delivered to them."),
  subscriptions: count,
});

export const channelsAnswer = v.strictObject({
  channels: v.pipe(v.array(ListedChannel), v.description("In the order of their names.")),
  cursor,
});

export const removedAnswer = v.strictObject({
  removed: counted("Records that were removed."),
});

export const clockAnswer = v.strictObject({
  shards: v.array(
    v.strictObject({
      index: count,
      setBackMs: count,
    }),
  ),
});

const Info = v.strictObject({
  nowSeconds: counted("The server's clock, in s since the epoch."),
  requests: count,
  requestsPerMinute: count,
  requestsByType: v.pipe(
    v.record(v.string(), v.strictObject({ total: count, perMinute: count })),
    v.description(
      "By name: requests of the Throttr protocol, and the calls (`increment`, `limit`, …).",
    ),
  ),
  readBytes: count,
  readBytesPerMinute: count,
  writeBytes: count,
  writeBytesPerMinute: count,
  keys: count,
  counters: count,
  buffers: count,
  counterBytes: count,
  bufferBytes: count,
  subscriptions: count,
  channels: count,
  runningSinceMs: counted("The earliest start of a shard that is awake, in ms since the epoch."),
  connections: count,
  version: v.string(),
});

const Problem = v.strictObject({
  type: v.pipe(v.string(), v.description("Where the code is explained.")),
  title: v.pipe(v.string(), v.description("What the code means.")),
  status: v.number(),
  code: v.pipe(v.string(), v.description("Stable, for programs.")),
  detail: v.pipe(v.string(), v.description("For people: names the field and the limit.")),
  errors: v.exactOptional(
    v.pipe(
      v.array(v.strictObject({ field: v.string(), message: v.string() })),
      v.description("Of `body_invalid` and `query_invalid`: what is wrong with which field."),
    ),
  ),
});

/** What has a name in the document. */
export const components = {
  U64,
  U64Text,
  Counter,
  CounterChange,
  Buffer,
  Remaining,
  Strategy,
  BucketStrategy,
  GcraStrategy,
  FixedWindowStrategy,
  Quota,
  SlidingWindowStrategy,
  CompositeStrategy,
  LimitResult,
  QuotaResult,
  ListedRecord,
  ListedChannel,
  Lease,
  Semaphore,
  ListedSemaphore,
  Holder,
  Info,
  Problem,
} as const;
