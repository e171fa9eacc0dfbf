/** HTTP answers of a server that the client's tests play. */
import type { FetchInit, FetchResponse } from "../../../src/client/platform.ts";
import { framesOf, replyTo, type ReceivedFrame } from "./server.ts";
import { concat } from "../frames/index.ts";

/** A request that was made. */
export interface MadeRequest extends FetchInit {
  readonly url: string;
  readonly frames: readonly ReceivedFrame[];
}

/** What comes of a request: an answer, or an error that is thrown. */
export type Answer = (request: MadeRequest) => Promise<FetchResponse> | FetchResponse;

export function responseOf(status: number, body: Uint8Array | string): FetchResponse {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return {
    ok: status >= 200 && status < 300,
    status,
    arrayBuffer: async () => bytes.slice().buffer as ArrayBuffer,
    text: async () => new TextDecoder().decode(bytes),
  };
}

/** Replies to all frames. */
export const success: Answer = ({ frames }) => responseOf(200, concat(frames.map(replyTo)));

/** A problem document. */
export function problem(status: number, code: string): Answer {
  const document = {
    type: `/docs#${code}`,
    title: "Error",
    status,
    code,
    detail: "the test says so",
  };
  return () => responseOf(status, JSON.stringify(document));
}

/** The request fails as one of Node does. */
export function failure(message: string, code?: string): Answer {
  return () => {
    throw Object.assign(new TypeError(message), { cause: { code } });
  };
}

/** Plays a server: `answers` one after the other, then success. */
export class FakeHttp {
  readonly requests: MadeRequest[] = [];
  readonly #answers: Answer[];

  constructor(answers: readonly Answer[]) {
    this.#answers = [...answers];
  }

  /** Names in the frames of each request. */
  get names(): string[][] {
    return this.requests.map(({ frames }) => frames.map(({ name }) => name));
  }

  readonly fetch = async (url: string, init: FetchInit): Promise<FetchResponse> => {
    const request = { ...init, url, frames: framesOf(init.body) };
    this.requests.push(request);
    return await (this.#answers.shift() ?? success)(request);
  };
}
