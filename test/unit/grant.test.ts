/** Rights as code and configuration write them. */
import { describe, expect, it } from "vitest";
import { accessOfGrant } from "../../src/base/grant.ts";

describe("a grant", () => {
  it.each(["keyPrefixes", "channelPrefixes"])("a grant whose %s is null is refused", (field) => {
    for (const isOfSession of [false, true]) {
      expect(() => accessOfGrant({ [field]: null }, isOfSession)).toThrow(
        `${field}: expected a list of texts`,
      );
    }
  });

  it.each(["keyPrefixes", "channelPrefixes"] as const)("a grant without %s allows all", (field) => {
    for (const isOfSession of [false, true]) {
      expect(accessOfGrant({ [field]: undefined }, isOfSession)[field]).toEqual([]);
    }
  });
});
