/** Files of pages, which `scripts/page-modules.ts` puts in the place of such an import when the package is built. */
declare module "pages:*" {
  const files: unknown;
  export default files;
}
