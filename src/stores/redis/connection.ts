import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import { isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { EndReason, RecordBody, SessionRecord } from '../record.ts';
import type { Gone } from '../store.ts';
import { closedStoreError, unavailableError } from '../store-lifecycle.ts';
import { scriptPrelude } from './script-prelude.ts';

type RedisReply = string | number | null | RedisReply[];

export interface RedisScript {
  readonly text: string;
  readonly sha: string;
}

export interface RedisConnection {
  run(script: RedisScript, ...values: (string | number)[]): Promise<RedisReply>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface RedisConnectionOptions {
  readonly url: string;
  readonly prefix: string;
  readonly patienceMs: number;
  readonly now: (() => number) | undefined;
}

export const toList = (reply: RedisReply | undefined): RedisReply[] => (Array.isArray(reply) ? reply : []);

const endReasons: ReadonlySet<unknown> = new Set<EndReason>(['ended', 'evicted', 'revoked', 'closed']);

export function prepareScript(body: string): RedisScript {
  const text = `${scriptPrelude}\n${body}`;
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}

/**
 * Creates a client that never queues a command: one that cannot be sent, or is under way when the connection breaks,
 * fails. The client reconnects by itself without end.
 */
export async function createClient(options: RedisConnectionOptions): Promise<Redis> {
  const { Redis } = await import('ioredis');
  const client = new Redis(options.url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    connectTimeout: options.patienceMs,
    // After a failover the old master is read-only; reconnecting finds the new one.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    retryStrategy: (attempt) => Math.min(20 * 2 ** Math.min(attempt, 10), 500),
  });
  // Each command reports its own failure.
  client.on('error', () => {});
  return client;
}

/** Waits until all clients are ready, but not for a server that refuses, and no longer than `patienceMs`. */
export async function awaitReady(clients: readonly Redis[], more: Promise<void>, patienceMs: number): Promise<void> {
  const ready = clients.map((client) => new Promise<void>((resolve) => void client.once('ready', () => resolve())));
  const connected = Promise.all(clients.map((client) => client.connect())).then(
    async () => void (await Promise.all([...ready, more])),
    () => {},
  );
  await withTimeout(connected, patienceMs).catch(() => {});
}

export function createConnection(client: Redis, options: RedisConnectionOptions): RedisConnection {
  const { prefix, patienceMs, now } = options;
  const underWay = new Set<Promise<unknown>>();
  let closed = false;

  async function runWithTimeout<T>(work: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(unavailableError('The session store did not answer in time.'));
        // A command that is still on its way must not take effect when nobody waits for it any more.
        if (!closed) client.disconnect(true);
      }, patienceMs);
    });
    work.catch(() => {});
    underWay.add(work);
    try {
      return await Promise.race([work, late]);
    } catch (error) {
      throw isAmbitError(error) ? error : unavailableError(describeError(error));
    } finally {
      clearTimeout(timer);
      underWay.delete(work);
    }
  }

  async function evaluate({ text, sha }: RedisScript, values: readonly (string | number)[]): Promise<RedisReply> {
    const time = now === undefined ? '' : now();
    try {
      return (await client.evalsha(sha, 1, prefix, time, ...values)) as RedisReply;
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
      return (await client.eval(text, 1, prefix, time, ...values)) as RedisReply;
    }
  }

  return {
    run: async (which, ...values) => {
      if (closed) throw closedStoreError();
      return runWithTimeout(evaluate(which, values));
    },
    ping: async () => void (await runWithTimeout(client.ping())),
    async close() {
      await Promise.allSettled([...underWay]);
      closed = true;
      client.disconnect();
    },
  };
}

/** Repeats only the error code: the rest of the text may contain an address with a password. */
function describeError(error: unknown): string {
  const { name, message } = error as Error;
  const code = name === 'ReplyError' ? /^[A-Z]+/.exec(message)?.[0] : undefined;
  return code === undefined
    ? 'The session store cannot be reached.'
    : `The session store answered with the error ${code}.`;
}

export function parseRecord(reply: RedisReply | undefined): SessionRecord {
  const [body, version, createdAt, ttlMs, endsAt, lastActiveAt, idleAt] = toList(reply) as string[];
  return {
    ...(JSON.parse(body ?? '') as RecordBody),
    version: Number(version),
    ttlSeconds: Number(ttlMs) / 1000,
    createdAt: Number(createdAt),
    lastActiveAt: Number(lastActiveAt),
    endsAt: Number(endsAt),
    expiresAt: Math.min(Number(idleAt), Number(endsAt)),
  };
}

/** Reads the reason that a script answers with when a session is gone. */
export function parseGone(status: RedisReply | undefined): Gone | undefined {
  if (status === 'missing' || status === 'expired') return { outcome: status };
  return endReasons.has(status) ? { outcome: 'ended', reason: status as EndReason } : undefined;
}
