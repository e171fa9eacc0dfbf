/** Modules of the library that its index lacks, though its types have them. */
declare module "rate-limiter-flexible/lib/RateLimiterStoreAbstract.js" {
  export { RateLimiterStoreAbstract as default } from "rate-limiter-flexible";
}
declare module "rate-limiter-flexible/lib/RateLimiterRes.js" {
  export { RateLimiterRes as default } from "rate-limiter-flexible";
}
