/** workerd's module for tests, which it has with the compatibility flag `unsafe_module`. */
declare module "workerd:unsafe" {
  const unsafe: {
    abortAllDurableObjects(): Promise<void>;
    evict(stub: unknown, options: { webSockets: "hibernate" | "close" }): Promise<void>;
  };
  export default unsafe;
}
