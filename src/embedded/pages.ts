/**
 * Pages that a bundle carries: the dashboard and the API reference, for Workers whose assets are their own.
 *
 * They are answered as the platform answers assets: an ETag, and a redirect from the paths that lead to a page.
 */

/** A file of a page, with all of its headers. */
export interface PageFile {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The files of `throttr-edge/dashboard` or `throttr-edge/docs`. */
export interface Pages {
  /** By path, below the prefix. */
  readonly files: Readonly<Record<string, PageFile>>;
  /** Other paths of a page, each with the path that it redirects to. */
  readonly detours: Readonly<Record<string, string>>;
}

/**
 * Answers a request for a page; null where there is no such file.
 *
 * @param prefix of the path, without a slash at its end
 * @param path below the prefix
 */
export function answerPage(
  { files, detours }: Pages,
  request: Request,
  prefix: string,
  path: string,
): Response | null {
  if (request.method !== "GET" && request.method !== "HEAD") return null;
  if (Object.hasOwn(detours, path)) {
    const location = prefix + detours[path]! + new URL(request.url).search;
    return new Response(null, { status: 307, headers: { location } });
  }
  if (!Object.hasOwn(files, path)) return null;
  const { body, headers } = files[path]!;
  const known = (request.headers.get("if-none-match") ?? "").split(",").map((tag) => tag.trim());
  if (known.some((tag) => tag.replace(/^W\//, "") === headers["etag"])) {
    return new Response(null, { status: 304, headers });
  }
  return new Response(request.method === "HEAD" ? null : body, { headers });
}
