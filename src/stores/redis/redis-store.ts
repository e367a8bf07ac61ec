import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { AmbitError } from '../../errors.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { type Change, type ChangeFeed, createChangeFeed } from '../feed.ts';
import {
  defaultPatienceMs,
  defaultResultLimits,
  defaultStateLimits,
  type SessionStore,
  type StoreOptions,
} from '../store.ts';
import { refuseWhenClosed, runEverySecond } from '../store-lifecycle.ts';
import { awaitReady, createClient, createConnection, type RedisConnectionOptions } from './connection.ts';
import { createRedisAdmission } from './redis-admission.ts';
import { createRedisDocuments } from './redis-documents.ts';
import { createRedisInboxes } from './redis-inbox.ts';
import { createRedisSessions } from './redis-sessions.ts';
import { createRedisMarks, createRedisResults, createRedisState } from './redis-state.ts';

export interface RedisStoreOptions extends StoreOptions {
  /** An address: redis://, rediss:// for TLS, or unix:// with the path of a socket. */
  readonly url: string;
  /** The prefix of every key. Stores with different names share a server without seeing each other. */
  readonly name?: string;
}

/**
 * Opens a store in Redis or Valkey that all who reach the server share. It opens whether or not the server is there:
 * `ping` tells, and the store works as soon as the server does.
 */
export async function openRedisStore(options: RedisStoreOptions): Promise<SessionStore> {
  const { name = 'ambit', now, patienceMs = defaultPatienceMs } = options;
  // Braces delimit the part of a key that selects the cluster slot, and that part must not be empty.
  if (!/^[^{}\s]{1,64}$/.test(name))
    throw new AmbitError('REQUEST_INVALID', { what: 'That is not a valid name for a store.' });
  const prefix = `{${name}}`;
  const settings: RedisConnectionOptions = { url: options.url.replace(/^unix:\/\//, ''), prefix, patienceMs, now };
  const client = await createClient(settings);
  const listener = await createClient(settings);
  const connection = createConnection(client, settings);
  const feed = createChangeFeed();
  const origin = randomBytes(8).toString('hex');
  const subscribed = subscribeToChanges(listener, `${prefix}:changes`, feed, origin);
  await awaitReady([client, listener], subscribed, patienceMs);
  const sessions = createRedisSessions(connection, origin);

  const listenerConnection = createConnection(listener, settings);
  const stopSweeping = now === undefined ? runEverySecond(sessions.sweep) : () => {};
  // A connection that broke silently would never report a change again. The ping detects it, and the client reconnects.
  const stopAsking = runEverySecond(listenerConnection.ping);

  return refuseWhenClosed({
    kind: 'redis',
    capabilities: { durable: 'server', shared: 'network', whenFull: 'refuse' },
    ...sessions,
    ...createRedisAdmission(connection),

    state: createRedisState(connection, { ...defaultStateLimits, ...options.stateLimits }),
    results: createRedisResults(connection, { ...defaultResultLimits, ...options.resultLimits }, origin),
    marks: createRedisMarks(connection),
    inboxes: createRedisInboxes(connection, origin),
    documents: createRedisDocuments(connection, { ...defaultDocumentLimits, ...options.documentLimits }),
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

/** Publishes changes that scripts announce; some may be lost at a reconnect. Resolves when it is subscribed. */
function subscribeToChanges(client: Redis, channel: string, feed: ChangeFeed, own: string): Promise<void> {
  let wasSubscribed = false;
  let markSubscribed = () => {};
  const firstSubscription = new Promise<void>((resolve) => {
    markSubscribed = resolve;
  });
  client.on('ready', () => {
    client
      .subscribe(channel)
      .then(() => {
        if (wasSubscribed) feed.publish({ kind: 'lost' });
        wasSubscribed = true;
        markSubscribed();
      })
      // The connection broke again; the next one subscribes.
      .catch(() => {});
  });
  client.on('message', (_channel: string, text: string) => {
    const change = parseChange(text, own);
    if (change !== undefined) feed.publish(change);
  });
  return firstSubscription;
}

function parseChange(text: string, own: string): Change | undefined {
  const [kind, id, detail, origin] = text.split(' ');
  if (id === undefined || detail === undefined) return undefined;
  if (kind === 'document') return { kind, collection: id, key: text.slice(`document ${id} `.length) };
  const here = origin === own;
  if (kind === 'ended') return { kind, id, reason: detail as Extract<Change, { kind: 'ended' }>['reason'], here };
  if (kind === 'message' || kind === 'result') return { kind, id, here };
  const version = Number(detail);
  if (kind === 'created') return { kind, id, version, here };
  const changed = kind === 'changed' || kind === 'restricted';
  return changed ? { kind: 'changed', id, version, restricted: kind === 'restricted', here } : undefined;
}
