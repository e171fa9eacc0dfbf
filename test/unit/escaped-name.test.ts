/** Names in paths, as clients write them. */
import { expect, it } from "vitest";
import { escapedName, rawPath } from "../../src/worker/escaped-name.ts";

const bytesOf = (path: string): string =>
  Buffer.from(escapedName(rawPath(`http://host${path}`).slice(1), "key"), "latin1").toString("hex");

it.each(["/日", "/é", "/å/../😀", "/%E6%97%A5日"])(
  "the path %s has the same bytes whether its letters are escaped or not",
  (path) => {
    const escaped = path.replace(/[^ -~]+/gu, encodeURIComponent);
    expect(bytesOf(path)).toBe(bytesOf(escaped));
  },
);

it("bytes that are not UTF-8 can be escaped", () => {
  expect(bytesOf("/%FF%00a")).toBe("ff0061");
});
