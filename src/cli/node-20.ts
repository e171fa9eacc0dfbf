/** What Node 20 lacks of the language that everything here is written in. */

/** Adds `Promise.withResolvers` where there is none. */
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
