/** Faults that a campaign of many runs must have met, by kind and step: one that never happened has shown nothing. */

const at = (kind: string, steps: readonly string[]): string[] =>
  steps.map((step) => `${kind}: ${step}`);

export const REQUIRED: readonly string[] = [
  ...at("put to sleep", ["Shard", "Directory"]),
  ...at("object reset", ["Shard", "Directory"]),
  ...at("partition", ["Shard", "Directory"]),
  ...at("disk full", ["Shard", "Directory"]),
  ...at("alarm twice", ["Shard"]),
  ...at("isolate ended", ["door"]),
  ...at("machine ended", ["machine"]),
  ...at("deployment", ["deployment"]),
  ...at("clock set", ["machine"]),
  ...at("connection cut", ["exchange"]),
  ...at("slow reader", ["exchange"]),
  ...at("call lost", ["Shard.apply", "Shard.claim", "Shard.hasData", "Shard.note"]),
  ...at("answer lost", ["Shard.apply", "Shard.claim", "Shard.hasData", "Shard.note"]),
  ...at("overload", ["Shard.apply", "Shard.claim", "Shard.hasData", "Shard.note"]),
  ...at("slow network", ["client", "object"]),
  ...at("slow disk", ["commit"]),
  ...at("late alarm", ["alarm"]),
  ...at("commit failed", ["Shard INSERT INTO journal"]),
  ...at("durable, and reported as failed", ["Shard INSERT INTO journal"]),
  ...at("crash", [
    "Shard constructor",
    "Shard apply",
    "Shard sql.exec INSERT INTO journal",
    "Shard sql.exec INSERT INTO snapshot",
    "Shard sql.exec UPDATE shard SET generation",
    "Shard storage.setAlarm",
    "Shard storage.sync",
    "Shard storage.sync settled",
    "door fetch",
    "door call Shard.apply",
    "door answer of apply",
  ]),
];

export const missingFaults = (happened: ReadonlyMap<string, number>): string[] =>
  REQUIRED.filter((fault) => !happened.has(fault));
