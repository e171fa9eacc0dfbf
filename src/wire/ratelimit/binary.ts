/**
 * Configurations in binary, as requests carry them.
 *
 *     configuration = strategy u8, fields
 *     strategy 1, 3, 4: token_bucket, leaky_bucket, gcra    burst f64, rate f64
 *     strategy 2: fixed_window                              quotas u8, quota*
 *     strategy 5: composite                                 primary configuration, secondary configuration
 *     strategy 6: sliding_window                            limit f64, window u64
 *     quota = name size u8, name, limit f64, window u64
 *
 * Little-endian; rates are per second, windows in ns. Strategies have the numbers that the headers of
 * their states begin with.
 */
import { binaryBytes, binaryString, type ByteWriter } from "../bytes.ts";
import {
  checkConfiguration,
  type QuotaConfiguration,
  type RateLimitConfiguration,
} from "./configuration.ts";
import { configurationInvalid } from "./error.ts";

const STRATEGY_NUMBERS = {
  token_bucket: 1,
  fixed_window: 2,
  leaky_bucket: 3,
  gcra: 4,
  composite: 5,
  sliding_window: 6,
} as const satisfies Record<RateLimitConfiguration["strategy"], number>;

/** Appends a configuration that has been checked. */
export function writeConfiguration(out: ByteWriter, configuration: RateLimitConfiguration): void {
  out.u8(STRATEGY_NUMBERS[configuration.strategy]);
  switch (configuration.strategy) {
    case "fixed_window":
      out.u8(configuration.quotas.length);
      for (const quota of configuration.quotas) {
        out.u8(quota.name.length);
        out.copy(binaryBytes(quota.name));
        writeWindow(out, quota);
      }
      break;
    case "sliding_window":
      writeWindow(out, configuration);
      break;
    case "composite":
      writeConfiguration(out, configuration.primary);
      writeConfiguration(out, configuration.secondary);
      break;
    default:
      out.f64(configuration.burst);
      out.f64(configuration.rate);
  }
}

function writeWindow(out: ByteWriter, { limit, windowNs }: Omit<QuotaConfiguration, "name">): void {
  out.f64(limit);
  const at = out.reserve(8);
  out.view.setBigUint64(at, windowNs, true);
}

/** Whether the configuration at `at` is a composite. */
export function isComposite(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === STRATEGY_NUMBERS.composite;
}

/**
 * Reads the configuration that is all of `bytes[at, end)`, and checks it.
 *
 * @throws RateLimitError `configuration_invalid` for bytes that are cut short, go on behind the
 *   configuration or have an unknown strategy; what `checkConfiguration` throws for the rest
 */
export function readConfiguration(
  bytes: Uint8Array,
  at: number,
  end: number,
): RateLimitConfiguration {
  const reader = new FieldReader(bytes.subarray(at, end));
  const strategy = reader.u8();
  const fields =
    strategy === STRATEGY_NUMBERS.composite
      ? {
          strategy: "composite",
          primary: readSingle(reader, reader.u8(), "primary."),
          secondary: readSingle(reader, reader.u8(), "secondary."),
        }
      : readSingle(reader, strategy, "");
  reader.finish();
  return checkConfiguration(fields);
}

/**
 * Reads what follows the number of a strategy that is no composite: composites are not read by calls
 * of this function to itself, which bytes could make as deep as they are long.
 *
 * @param path of what the fields belong to: "" or such as `primary.`
 * @returns fields that are not checked
 */
function readSingle(reader: FieldReader, strategy: number, path: string): object {
  switch (strategy) {
    case STRATEGY_NUMBERS.token_bucket:
      return { strategy: "token_bucket", burst: reader.f64(), rate: reader.f64() };
    case STRATEGY_NUMBERS.leaky_bucket:
      return { strategy: "leaky_bucket", burst: reader.f64(), rate: reader.f64() };
    case STRATEGY_NUMBERS.gcra:
      return { strategy: "gcra", burst: reader.f64(), rate: reader.f64() };
    case STRATEGY_NUMBERS.fixed_window: {
      const count = reader.u8();
      const quotas = Array.from({ length: count }, () => ({
        name: reader.text(reader.u8()),
        limit: reader.f64(),
        windowNs: reader.u64(),
      }));
      return { strategy: "fixed_window", quotas };
    }
    case STRATEGY_NUMBERS.sliding_window:
      return { strategy: "sliding_window", limit: reader.f64(), windowNs: reader.u64() };
    default:
      throw configurationInvalid(`${path}strategy`, "expected the number of a strategy", strategy);
  }
}

/** Reads one field behind the other, little-endian, and refuses to read beyond the last byte. */
class FieldReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.#take(8), true);
  }

  /** A text of one byte a character. */
  text(size: number): string {
    return binaryString(this.#bytes, this.#take(size), size);
  }

  /** @throws RateLimitError when there are more bytes */
  finish(): void {
    const left = this.#bytes.length - this.#at;
    if (left > 0) this.#refuse("expected no more bytes", left);
  }

  #take(count: number): number {
    const at = this.#at;
    const left = this.#bytes.length - at;
    if (left < count) this.#refuse(`expected ${count} more bytes`, left);
    this.#at = at + count;
    return at;
  }

  #refuse(expected: string, left: number): never {
    throw configurationInvalid("configuration", expected, left);
  }
}
