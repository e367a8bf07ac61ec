import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { AmbitError } from '../../errors.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { type Change, createFeed, type Feed } from '../feed.ts';
import { defaultPatienceMs, defaultStateLimits, type SessionStore, type StoreOptions } from '../store.ts';
import { everySecond, refusingWhenClosed } from '../store-lifecycle.ts';
import { type ConnectionOptions, connectionOf, createClient, firstContact } from './connection.ts';
import { createRedisAdmission } from './redis-admission.ts';
import { redisDocuments } from './redis-documents.ts';
import { redisSessions } from './redis-sessions.ts';
import { redisMarks, redisState } from './redis-state.ts';

export interface RedisStoreOptions extends StoreOptions {
  /** redis://, rediss:// for TLS, unix:// for the path of a socket. */
  readonly url: string;
  /** Begins every key; stores with different names share a server without seeing each other. */
  readonly name?: string;
}

/**
 * Sessions in Redis or Valkey, shared by all who reach it. It opens whether or not the server is there: `ping` tells,
 * and the store is there when the server is.
 */
export async function openRedisStore(options: RedisStoreOptions): Promise<SessionStore> {
  const { name = 'ambit', now, patienceMs = defaultPatienceMs } = options;
  // Braces would end the part of the key that decides where it lies, and so would nothing between them.
  if (!/^[^{}\s]{1,64}$/.test(name)) throw new AmbitError('REQUEST_INVALID', { what: 'That is no name for a store.' });
  const prefix = `{${name}}`;
  const url = options.url.replace(/^unix:\/\//, '');
  const settings: ConnectionOptions = { url, prefix, patienceMs, now };
  const client = await createClient(settings);
  const listener = await createClient(settings);
  const connection = connectionOf(client, settings);
  const feed = createFeed();
  const origin = randomBytes(8).toString('hex');
  const listening = followChannel(listener, `${prefix}:changes`, feed, origin);
  await firstContact([client, listener], listening, patienceMs);
  const sessions = redisSessions(connection, origin);

  const hearing = connectionOf(listener, settings);
  const stopSweeping = now === undefined ? everySecond(sessions.sweep) : () => {};
  // A connection that broke without a word would never tell of a change again; asked, it is found out and made anew.
  const stopAsking = everySecond(hearing.ping);

  return refusingWhenClosed({
    kind: 'redis',
    capabilities: { durable: 'server', shared: 'network', whenFull: 'refuse' },
    ...sessions,
    ...createRedisAdmission(connection),

    state: redisState(connection, { ...defaultStateLimits, ...options.stateLimits }),
    marks: redisMarks(connection),
    documents: redisDocuments(connection, { ...defaultDocumentLimits, ...options.documentLimits }),
    watch: feed.watch,
    ping: connection.ping,
    async close() {
      stopSweeping();
      stopAsking();
      feed.close();
      await connection.close();
      listener.disconnect();
    },
  });
}

/**
 * Hears the changes that scripts announce. Whenever the connection had to be made anew, some may have been missed.
 * Resolves when it hears for the first time.
 */
function followChannel(client: Redis, channel: string, feed: Feed, own: string): Promise<void> {
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
