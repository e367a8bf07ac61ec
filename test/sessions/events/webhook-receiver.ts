import { webcrypto } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly event: { readonly type: string; readonly data: { readonly session: { readonly id: string } } };
  readonly path: string;
}

export interface WebhookReceiver {
  readonly url: string;
  /** Whatever was posted, taken or not. */
  readonly seen: readonly Delivery[];
  /** Decides what to answer; 204 unless told. */
  answer: (delivery: Delivery) => { readonly status: number; readonly location?: string };
  sees(fits: (delivery: Delivery) => boolean): Promise<Delivery>;
  close(): Promise<void>;
}

export async function startReceiver(): Promise<WebhookReceiver> {
  const seen: Delivery[] = [];
  const waiting = new Set<() => void>();
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('');
    const delivery = { headers: request.headers, body, event: JSON.parse(body), path: request.url ?? '' };
    const { status, location } = receiver.answer(delivery);
    response.writeHead(status, location === undefined ? {} : { location }).end();
    seen.push(delivery);
    for (const look of waiting) look();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?key=planted-in-the-address`,
    seen,
    answer: () => ({ status: 204 }),
    sees: (fits) =>
      new Promise((resolve) => {
        const look = () => {
          const found = seen.find(fits);
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return receiver;
}

/**
 * The check of a receiver, written from the text of Standard Webhooks and with another implementation of HMAC than the
 * sender's: any of the signatures may fit, and the time may be off by five minutes.
 */
export async function verifySignature(
  { headers, body }: Pick<Delivery, 'headers' | 'body'>,
  secret: string,
): Promise<boolean> {
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signatures } = headers;
  if (typeof id !== 'string' || typeof time !== 'string' || typeof signatures !== 'string') return false;
  if (!/^\d+$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const raw = Uint8Array.from(atob(secret.replace(/^whsec_/, '')), (letter) => letter.charCodeAt(0));
  const key = await webcrypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  const signed = new TextEncoder().encode(`${id}.${time}.${body}`);
  const checks = signatures
    .split(' ')
    .filter((each) => each.startsWith('v1,'))
    .map((each) => Uint8Array.from(atob(each.slice(3)), (letter) => letter.charCodeAt(0)))
    .map((signature) => webcrypto.subtle.verify('HMAC', key, signature, signed));
  return (await Promise.all(checks)).includes(true);
}
