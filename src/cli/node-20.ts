/** Adds the parts of the language that this code uses and Node 20 lacks. Delete it with Node 20. */

/** Adds `Promise.withResolvers` if it is missing (Node has it since 22). */
export function completeLanguage(): void {
  if (typeof Promise.withResolvers === "function") return;
  const withResolvers = <Value>(): PromiseWithResolvers<Value> => {
    let resolve!: PromiseWithResolvers<Value>["resolve"];
    let reject!: PromiseWithResolvers<Value>["reject"];
    const promise = new Promise<Value>((...settle) => ([resolve, reject] = settle));
    return { promise, resolve, reject };
  };
  Object.defineProperty(Promise, "withResolvers", { value: withResolvers, writable: true });
}
