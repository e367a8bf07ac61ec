import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';

type PostResult =
  | { readonly taken: true }
  /** Without a status there was no response. */
  | { readonly taken: false; readonly why: string; readonly status?: number };

const timeoutMs = 10_000;
const drainMs = 1000;

/** Sends one POST request. Redirects are not followed; they count as refusals. */
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
      // The body is not needed. A short one is drained, so that the server is not cut off while it sends.
      response.on('error', () => {}).resume();
      const cut = setTimeout(() => response.destroy(), drainMs).unref();
      response.once('close', () => clearTimeout(cut));
      const taken = statusCode >= 200 && statusCode < 300;
      settle(taken ? { taken } : { taken, why: `status ${statusCode}`, status: statusCode });
    });
    request.on('error', (error: NodeJS.ErrnoException) =>
      settle({ taken: false, why: error.code ?? (signal.aborted ? 'broken off' : error.message) }),
    );
    // An upgrade ends a request without a response or an error. After either of these, this does nothing.
    request.on('close', () => settle({ taken: false, why: 'no answer' }));
    request.end(bytes);
  });
}
