import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';

export type PostResult =
  | { readonly taken: true }
  /** Without a status there was no answer. */
  | { readonly taken: false; readonly why: string; readonly status?: number };

const timeoutMs = 10_000;
const drainMs = 1000;

/** One attempt. Redirects are answers like any other that is not a yes: nothing follows them. */
export function postJson(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
): Promise<PostResult> {
  return new Promise((resolve) => {
    const bytes = Buffer.from(body);
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method: 'POST',
      agent: false,
      signal,
      headers: { ...headers, 'content-type': 'application/json', 'content-length': bytes.length },
    });
    const late = setTimeout(() => request.destroy(new Error('no answer in time')), timeoutMs);
    const settle = (posted: PostResult) => {
      clearTimeout(late);
      resolve(posted);
    };
    request.on('response', (response) => {
      const { statusCode = 0 } = response;
      // What it has to say beside is not wanted; a short word is let go by, so that it is not cut off while speaking.
      response.on('error', () => {}).resume();
      const cut = setTimeout(() => response.destroy(), drainMs).unref();
      response.once('close', () => clearTimeout(cut));
      const taken = statusCode >= 200 && statusCode < 300;
      settle(taken ? { taken } : { taken, why: `status ${statusCode}`, status: statusCode });
    });
    request.on('error', (error: NodeJS.ErrnoException) =>
      settle({ taken: false, why: error.code ?? (signal.aborted ? 'broken off' : error.message) }),
    );
    // A switch to another protocol ends a request without a response and without an error. After either this does nothing.
    request.on('close', () => settle({ taken: false, why: 'no answer' }));
    request.end(bytes);
  });
}
