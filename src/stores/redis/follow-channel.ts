import type { Redis } from 'ioredis';
import type { Change, Feed } from '../feed.ts';

/**
 * Hears the changes that scripts announce. Whenever the connection had to be made anew, some may have been missed.
 * Resolves when it hears for the first time.
 */
export function followChannel(client: Redis, channel: string, feed: Feed, own: string): Promise<void> {
  let before = false;
  let heard = () => {};
  const hears = new Promise<void>((resolve) => {
    heard = resolve;
  });
  client.on('ready', () => {
    client
      .subscribe(channel)
      .then(() => {
        if (before) feed.tell({ kind: 'lost' });
        before = true;
        heard();
      })
      // The connection broke again; there will be another.
      .catch(() => {});
  });
  client.on('message', (_channel: string, text: string) => {
    const change = readChange(text, own);
    if (change !== undefined) feed.tell(change);
  });
  return hears;
}

function readChange(text: string, own: string): Change | undefined {
  const [kind, id, detail, origin] = text.split(' ');
  if (id === undefined || detail === undefined) return undefined;
  if (kind === 'document') return { kind, collection: id, key: text.slice(`document ${id} `.length) };
  const here = origin === own;
  if (kind === 'ended') return { kind, id, reason: detail as Extract<Change, { kind: 'ended' }>['reason'], here };
  const version = Number(detail);
  if (kind === 'created') return { kind, id, version, here };
  const changed = kind === 'changed' || kind === 'restricted';
  return changed ? { kind: 'changed', id, version, restricted: kind === 'restricted', here } : undefined;
}
