/** Arbitrary steps of several connections of the yrmcds protocol: pipelines, in any cut, and closes. */
import fc from "fast-check";
import { namedBody, OPCODE, rawFrame, requestFrame } from "../frames/yrmcds.ts";
import { amountArbitrary, anyFrameArbitrary } from "./arbitraries.ts";
import { SemaphoreModel } from "../models/yrmcds.ts";

/** A request on a semaphore whose name is yet to be chosen, or bytes that name none. */
export type PlannedRequest =
  | {
      opcode: number;
      flags: number;
      reserved: number;
      opaque: number;
      numbers: number[];
      name: number;
      trailing: Uint8Array;
    }
  | { frame: Uint8Array };

export type PlannedStep =
  | { do: "requests"; who: number; requests: PlannedRequest[]; cuts: number[] }
  | { do: "close"; who: number; requests: PlannedRequest[] };

const NAME_BYTES_MAX = 65_535;
/** What follows a stream's prefix in names; null: as much as makes the name the longest, and its last byte. */
const NAMES: readonly (readonly [text: string] | readonly [fill: null, last: number])[] = [
  ...["a", "ab", "b", "\0\u00ff|\n", "a\0", ""].map((text) => [text] as const),
  [null, 1],
  [null, 2],
];
const LONG_FROM = NAMES.findIndex(([text]) => text === null);

function nameAt(prefix: string, index: number): Uint8Array<ArrayBuffer> {
  const [text, last = 0] = NAMES[index]!;
  if (text !== null) return Uint8Array.from(prefix + text, (character) => character.charCodeAt(0));
  const name = new Uint8Array(NAME_BYTES_MAX);
  name.set(nameAt(prefix, 0));
  name[NAME_BYTES_MAX - 1] = last;
  return name;
}

/**
 * The bytes of a request.
 *
 * @param prefix of all names of a stream, so that streams do not meet
 */
export function renderRequest(request: PlannedRequest, prefix: string): Uint8Array {
  if ("frame" in request) return request.frame;
  const { opcode, flags, reserved, opaque, numbers, name, trailing } = request;
  const needed = namedBody(numbers, nameAt(prefix, name));
  const body = new Uint8Array(needed.length + trailing.length);
  body.set(needed);
  body.set(trailing, needed.length);
  return rawFrame({ magic: 0x90, opcode, flags, reserved, opaque, body });
}

const byte = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.nat(255));
const opaque = fc.nat(0xffffffff);

function named(opcode: number, numbers: number): fc.Arbitrary<PlannedRequest> {
  return fc.record({
    opcode: fc.constant(opcode),
    flags: byte,
    reserved: byte,
    opaque,
    numbers: fc.array(amountArbitrary, { minLength: numbers, maxLength: numbers }),
    name: fc.oneof(
      { weight: 300, arbitrary: fc.nat(LONG_FROM - 1) },
      { weight: 1, arbitrary: fc.integer({ min: LONG_FROM, max: NAMES.length - 1 }) },
    ),
    trailing: fc.oneof(
      { weight: 9, arbitrary: fc.constant(new Uint8Array(0)) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 9 }) },
    ),
  });
}

const INVALID = 0x04;
const UNKNOWN = 0x81;

/** True for frames that are refused, whatever semaphores there are: names of other streams are not met. */
function isMalformed(frame: Uint8Array): boolean {
  const status = new SemaphoreModel(1).answer("nobody", frame, 0)?.[2];
  return status === INVALID || status === UNKNOWN;
}

const malformed = anyFrameArbitrary.filter(isMalformed).map((frame) => ({ frame }));
const nameless = (opcode: number): fc.Arbitrary<PlannedRequest> =>
  fc
    .tuple(opaque, fc.uint8Array({ maxLength: 5 }))
    .map(([opaque, body]) => ({ frame: requestFrame(opcode, opaque, body) }));

const request: fc.Arbitrary<PlannedRequest> = fc.oneof(
  { weight: 8, arbitrary: named(OPCODE.acquire, 2) },
  { weight: 6, arbitrary: named(OPCODE.release, 1) },
  { weight: 4, arbitrary: named(OPCODE.get, 0) },
  { weight: 2, arbitrary: malformed },
  { weight: 1, arbitrary: nameless(OPCODE.noop) },
);
const wholeRequest: fc.Arbitrary<PlannedRequest> = fc.oneof(
  { weight: 20, arbitrary: request },
  { weight: 1, arbitrary: nameless(OPCODE.stats) },
  { weight: 1, arbitrary: nameless(OPCODE.dump) },
);

/** Steps of connections 0 to `parties` less one. */
export function stepsArbitrary(parties: number): fc.Arbitrary<PlannedStep[]> {
  const who = fc.nat(parties - 1);
  const step: fc.Arbitrary<PlannedStep> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("requests" as const),
        who,
        requests: fc.array(wholeRequest, { minLength: 1, maxLength: 12 }),
        cuts: fc.array(fc.nat(400), { maxLength: 4 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("close" as const),
        who,
        requests: fc.array(request, { maxLength: 4 }),
      }),
    },
  );
  return fc.array(step, { minLength: 1, maxLength: 25, size: "max" });
}

/** Cuts bytes where it is told, as far as they reach. */
export function piecesOf(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const at = [...new Set(cuts)]
    .filter((cut) => cut > 0 && cut < bytes.length)
    .toSorted((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}
