import type { IncomingMessage } from 'node:http';

/** The whole body. `onGone` is how one hears that the client has left; a request does not tell it reliably. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  onGone: (listener: () => void) => void,
): Promise<Buffer | 'too long' | 'broken off'> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve('too long');
  return new Promise((resolve) => {
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) {
        request.removeAllListeners('data');
        resolve('too long');
      } else if (first === undefined) first = chunk;
      else {
        more ??= [first];
        more.push(chunk);
      }
    });
    request.on('end', () => resolve(more === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(more)));
    onGone(() => resolve('broken off'));
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
