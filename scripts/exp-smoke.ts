import { bundle } from "../test/simulator/platform/realm.ts";
import { calm } from "../test/simulator/platform/faults.ts";
import { SeededFaults } from "../test/simulator/faults/seeded.ts";
import { FaultCounts } from "../test/simulator/faults/counts.ts";
import { Disturbances } from "../test/simulator/faults/disturbances.ts";
import { World, type Workload } from "../test/simulator/world.ts";
import { inMacrotask } from "../test/simulator/kernel/drain.ts";
const code = await bundle("src/worker/index.ts");
const verbose = process.argv.includes("-v");
const [first = 1, count = 3] = process.argv.slice(2).filter((a) => /^\d+$/.test(a)).map(Number);
for (let seed = first; seed < first + count; seed++) {
await inMacrotask(() => {
  const t0 = performance.now();
  let done = 0, failed = 0; const errors = new Map<string, number>();
  const workload: Workload = { name: "smoke", check: () => [], start(world) {
    for (let c = 0; c < 20; c++) world.start("client " + c, async (life) => {
      const random = world.random.fork("client " + c);
      for (let i = 0; i < 100 && !world.isClosing; i++) {
        await life.settled(random.skewed(1, 5000), "pause", () => {});
        const door = world.door(random);
        try { 
          await new Promise<void>((res, rej) => door.isolate.later(1, "call", () => { const e = door.entrypoint("Throttr", {}) as any; const end = door.isolate.watch(rej); e.increment("k" + (i % 7), { ttlMs: 60000 }).then(() => {end();life.later(1,"x",res)}, (err: any) => {end();life.later(1,"x",()=>rej(err))}); }));
          done++; 
        } catch (e) { failed++; const t = String((e as Error).message).slice(0, 60); errors.set(t, (errors.get(t) ?? 0) + 1); }
      }
    });
  } };
  const counts = new FaultCounts();
  const world = new World({ seed, release: { name: "now", bundle: code }, faults: (r) => process.argv.includes("calm") ? calm(r) : new SeededFaults(r, counts), variables: { ACCESS: "open", YRMCDS_ENABLE: "on", SHARDS: "2", ACCEPT_DATA_LOSS: "on" }, machines: 2, doors: 2, workloads: [workload], durationMs: 600_000, onTrace: verbose ? (l) => console.log(l.slice(0, 180)) : null });
  const onUnhandled = (e: unknown) => world.noteUnhandled(e);
  process.on("unhandledRejection", onUnhandled);
  if (!process.argv.includes("calm")) new Disturbances(world, counts).start();
  const violations = world.play();
  process.off("unhandledRejection", onUnhandled);
  console.log(seed, "done", done, "failed", failed, "ticks", world.time.tick, "ms", Math.round(performance.now() - t0), world.trace.hash, "faults", counts.total);
  for (const [k, v] of errors) console.log("   ", v, k);
  for (const v of violations.slice(0,3)) console.log("  VIOLATION", v.promise, v.subject, v.message.slice(0, 1500));
});
}
