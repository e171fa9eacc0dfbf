/** The token bucket of Redis: a script in Lua, which decides and writes in one step, and its calls. */
import { createHash } from "node:crypto";
import { redisCommand, type ReplyShape } from "./frames.ts";
import { BUCKET, keysOf } from "./workers/check-load.ts";

const { burst, ratePerS } = BUCKET;
/** As long as our states live: five times as long as a bucket takes to fill. */
const TTL_S = Math.trunc((burst / ratePerS) * 5);

const SCRIPT = `local burst, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = burst
if bucket[1] then
  tokens = math.min(burst, tonumber(bucket[1]) + (now - tonumber(bucket[2])) * rate)
end
if tokens < 1 then return {0, 0} end
tokens = tokens - 1
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return {1, math.floor(tokens)}`;
const SCRIPT_SHA = createHash("sha1").update(SCRIPT).digest("hex");

/** Makes the script known to Redis. */
export const LOAD_SCRIPT = redisCommand("SCRIPT", "LOAD", SCRIPT);

/** Whether it is granted, and what remains: an array of two integers. */
export const CHECK_REPLY: ReplyShape = { kind: "lines", lines: 3 };

/** What a check that is not granted is answered. */
export const REFUSAL = "*2\r\n:0\r\n";

/** Frames of checks, all of one length, on keys that are chosen at random, all alike. */
export function checkFrames(count: number, keys: number): Buffer[] {
  const frameOf = (key: string): Buffer =>
    redisCommand("EVALSHA", SCRIPT_SHA, "1", key, String(burst), String(ratePerS), String(TTL_S));
  const frames = keysOf(keys).map(frameOf);
  return Array.from({ length: count }, () => frames[Math.floor(Math.random() * keys)]!);
}
