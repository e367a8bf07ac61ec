import { request } from 'node:http';
import { text } from 'node:stream/consumers';

/** Makes one request to the control API, as `ambit session …` makes it. */
export async function requestControl<T>(socketPath: string, method: string, path: string, body?: unknown): Promise<T> {
  const sent = body === undefined ? '' : JSON.stringify(body);
  // Node does not say by itself that a DELETE has a body.
  const headers = { 'content-length': Buffer.byteLength(sent) };
  const answer = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const asking = request({ socketPath, method, path, headers, agent: false }, (response) => {
      text(response).then((read) => resolve({ status: response.statusCode ?? 0, text: read }), reject);
    });
    asking.on('error', reject);
    asking.end(sent);
  });
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return JSON.parse(answer.text) as T;
}
