/** Bindings of the Worker: see wrangler.toml. */
declare namespace Cloudflare {
  interface Env {
    THROTTR: import("throttr-edge/client").ThrottrService;
  }
}
