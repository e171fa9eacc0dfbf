/** Bindings of the examples. */
declare namespace Cloudflare {
  interface Env {
    THROTTR: import("throttr-edge/client").ThrottrService;
  }
}

declare module "*.html" {
  const text: string;
  export default text;
}
