import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';

type PostResult =
  | { readonly taken: true }
  /** Without a status there was no response. */
  | { readonly taken: false; readonly why: string; readonly status?: number };

const timeoutMs = 10_000;
const drainMs = 1000;

/** Starts a POST request on a connection of its own: a shared one may have been closed by the other side. */
function startPost(url: URL, headers: Readonly<Record<string, string>>, body: string, signal: AbortSignal) {
  const bytes = Buffer.from(body);
  const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
    method: 'POST',
    agent: false,
    signal,
    headers: { ...headers, 'content-type': 'application/json', 'content-length': bytes.length },
  });
  request.end(bytes);
  return request;
}

/** Sends one POST request. Redirects are not followed; they count as refusals. */
export function postJson(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
): Promise<PostResult> {
  return new Promise((resolve) => {
    const request = startPost(url, headers, body, signal);
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
    onFailure(request, signal, (why) => settle({ taken: false, why }));
  });
}

/** Sends one POST request and reads the whole answer. Redirects are not followed. Rejects with a short reason. */
export function postForAnswer(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string,
  { signal, maxBytes }: { readonly signal: AbortSignal; readonly maxBytes: number },
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const request = startPost(url, headers, body, signal);
    const fail = (why: string) => reject(new Error(why));
    request.on('response', (response: IncomingMessage) => {
      const parts: Buffer[] = [];
      let length = 0;
      response.on('data', (part: Buffer) => {
        length += part.length;
        parts.push(part);
        if (length <= maxBytes) return;
        fail('the answer is too long');
        request.destroy();
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString('utf8') }),
      );
      response.on('error', () => fail(signal.aborted ? 'broken off' : 'the answer broke off'));
    });
    onFailure(request, signal, fail);
  });
}

function onFailure(request: ClientRequest, signal: AbortSignal, fail: (why: string) => void): void {
  request.on('error', (error: NodeJS.ErrnoException) =>
    fail(signal.aborted ? 'broken off' : (error.code ?? error.message)),
  );
  // An upgrade ends a request without a response or an error. After either of these, this does nothing.
  request.on('close', () => fail('no answer'));
}
