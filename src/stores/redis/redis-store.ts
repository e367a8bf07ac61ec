import { randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { type Admission, type LimitName, type Limits, type Scope, type Spent, scopes } from '../admission.ts';
import { checkAdmission, checkId, checkLease } from '../checks.ts';
import { defaultDocumentLimits } from '../documents.ts';
import { everySecond } from '../every-second.ts';
import { createFeed } from '../feed.ts';
import { nextLease } from '../next-lease.ts';
import { costOf } from '../quota.ts';
import { refusingWhenClosed } from '../refusing-when-closed.ts';
import { defaultPatienceMs, defaultStateLimits, type SessionStore, type StoreOptions } from '../store.ts';
import { type ConnectionOptions, connectionOf, createClient, firstContact, script } from './connection.ts';
import { followChannel } from './follow-channel.ts';
import { redisDocuments } from './redis-documents.ts';
import { redisSessions } from './redis-sessions.ts';
import { redisMarks, redisState } from './redis-state.ts';
import { asList, goneFrom, recordFrom } from './replies.ts';
import { admitScript, usageScript } from './scripts/admit-script.ts';
import { releaseScript, renewScript } from './scripts/settle-scripts.ts';

export interface RedisStoreOptions extends StoreOptions {
  /** redis://, rediss:// for TLS, unix:// for the path of a socket. */
  readonly url: string;
  /** Begins every key; stores with different names share a server without seeing each other. */
  readonly name?: string;
}

const admit = script(admitScript);
const renew = script(renewScript);
const release = script(releaseScript);
const usage = script(usageScript);

function limitValues(limits: Limits = {}): (string | number)[] {
  const { callsPerMinute, burst, concurrentCalls, totalCalls, totalBytes } = limits;
  return [callsPerMinute, burst, concurrentCalls, totalCalls, totalBytes].map((value) => value ?? '');
}

function spentValues({ bytes = 0, unusedCalls = 0, agoMs = 0, limits = {} }: Spent): (string | number)[] {
  const { session, user, workspace } = limits;
  const shared = [user, workspace].flatMap((each) => [each === undefined ? '0' : '1', each?.callsPerMinute ?? '']);
  return [bytes, unusedCalls, agoMs, session?.callsPerMinute ?? '', ...shared];
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

  function values(request: Admission, lease: string): (string | number)[] {
    const { id, version = '', holdMs, limits = {} } = request;
    const { calls, bytes, places } = costOf(request);
    const counted = [limits.user, limits.workspace].map((each) => (each === undefined ? '0' : '1'));
    const place = holdMs === undefined ? ['', '', 0] : [lease, holdMs, places];
    return [id, version, calls, bytes, ...place, ...scopes.flatMap((scope) => limitValues(limits[scope])), ...counted];
  }

  return refusingWhenClosed({
    kind: 'redis',
    capabilities: { durable: 'server', shared: 'network', whenFull: 'refuse' },
    ...sessions,

    async admit(request) {
      checkAdmission(request);
      const lease = nextLease();
      const reply = asList(await connection.run(admit, ...values(request, lease)));
      const [word] = reply;
      const gone = goneFrom(word);
      if (gone !== undefined) return gone;
      if (word === 'stale') return { outcome: 'stale', record: recordFrom(reply[1]) };
      if (word === 'quota') {
        const [, scope, limit, allowed, wait] = reply as [string, Scope, LimitName, number, string];
        const retryAfterMs = wait === '' ? null : Number(wait);
        return { outcome: 'quota', scope, limit, allowed: Number(allowed), retryAfterMs };
      }
      const [, version, lastActiveAt, expiresAt] = reply.map(Number);
      return {
        outcome: 'admitted',
        version: version as number,
        lastActiveAt: lastActiveAt as number,
        expiresAt: expiresAt as number,
        lease: request.holdMs === undefined ? null : lease,
      };
    },

    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      return (await connection.run(renew, id, lease, holdMs, spent.places ?? '', ...spentValues(spent))) === 1;
    },

    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      await connection.run(release, id, lease, '', '', ...spentValues(spent));
    },

    async usage(id) {
      checkId(id);
      const [calls, bytes, underWay] = asList(await connection.run(usage, id));
      if (calls === undefined) return undefined;
      return { calls: Number(calls), bytes: Number(bytes), underWay: Number(underWay) };
    },

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
