import type { IncomingMessage } from 'node:http';

/** The whole body, or undefined when it is longer than allowed. Rejects when the client breaks off. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | undefined> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) {
        request.removeAllListeners('data');
        resolve(undefined);
      } else if (first === undefined) first = chunk;
      else {
        more ??= [first];
        more.push(chunk);
      }
    });
    request.on('end', () => resolve(more === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(more)));
    request.on('error', reject);
    request.on('close', () => {
      if (!request.complete) reject(new Error('the client broke off'));
    });
  });
}

const lingerMs = 2000;

/** Lets the rest of a body go by for a while: whoever is cut off while sending never gets to read the answer. */
export function passOver(request: IncomingMessage): void {
  request.resume();
  const cut = setTimeout(() => request.destroy(), lingerMs).unref();
  request.once('end', () => clearTimeout(cut));
  request.once('close', () => clearTimeout(cut));
}
