import type { Redis } from 'ioredis';
import type { Change, Feed } from '../feed.ts';

/**
 * Hears the changes that scripts announce. Whenever the connection had to be made anew, some may have been missed.
 * Resolves when it hears for the first time.
 */
export function followChannel(client: Redis, channel: string, feed: Feed): Promise<void> {
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
    const change = readChange(text);
    if (change !== undefined) feed.tell(change);
  });
  return hears;
}

function readChange(text: string): Change | undefined {
  const [kind, id, detail] = text.split(' ');
  if (id === undefined || detail === undefined) return undefined;
  if (kind === 'document') return { kind, collection: id, key: text.slice(`document ${id} `.length) };
  if (kind === 'ended') return { kind, id, reason: detail as Extract<Change, { kind: 'ended' }>['reason'] };
  return kind === 'created' || kind === 'changed' ? { kind, id, version: Number(detail) } : undefined;
}
