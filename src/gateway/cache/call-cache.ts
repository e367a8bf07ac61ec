import type { Config } from '../../config/schema/schema.ts';
import { computeArgumentsDigest, noArgumentsDigest } from '../../context/for-tools/arguments-digest.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import { acceptedReply, type Channel, type Era, type FinalReply } from '../../protocol/channel.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { AskServer, Offer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import { type JournalDraft, watchEmits } from '../exchange.ts';
import { type CachedResult, type ResultCache, readCacheable } from './result-cache.ts';

export type CacheSharing = 'session' | 'user' | 'workspace';

/** The fields of a session that decide with whom it may share a result. */
export type PartitionSession = Omit<ActingSession, 'agentId'>;

interface CachePartition {
  /** Equal for sessions that may share results, different for all others. */
  readonly name: string;
  /** The session that owns the partition, if it is not shared. */
  readonly owner: string | undefined;
  readonly severalUsers: boolean;
}

/** The members of a call that can be answered from the cache. A call with other members is not cached. */
const plainMembers: ReadonlySet<string> = new Set(['name', 'arguments', '_meta']);

/** The `_meta` keys that do not change the answer of a tool. */
const ignoredMetaKeys: ReadonlySet<string> = new Set([
  'progressToken',
  'traceparent',
  'tracestate',
  'baggage',
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/logLevel',
]);

/** A permitted call of a tool, as its server will get it. */
interface CachedCall {
  readonly session: Session;
  readonly upstream: ServerDefinition;
  /** The message with the server's own tool name, without the keys that are not for the server. */
  readonly message: Message;
  readonly channel: Channel;
  readonly caller: Caller | undefined;
  readonly headers: () => Readonly<Record<string, string>>;
  readonly correlationId: string;
  readonly entry: JournalDraft;
  readonly era: Era;
  /** The capabilities of the client, as a key. */
  readonly capabilities: string;
  /** Everything else that changes the form of the same result: address, era and revision. */
  readonly replyForm: string;
  readonly ask: AskServer;
}

export interface CallCache {
  /** Tells whether results of any tool of this server may be cached. */
  cachesServer(server: string): boolean;
  cachesTool(server: ServerDefinition, message: Message): boolean;
  /** Answers from the cache or by `forward`, which gets the channel to use. */
  answer(call: CachedCall, forward: (channel: Channel) => Promise<FinalReply>): Promise<FinalReply>;
}

interface CallCacheParts {
  readonly cache: ResultCache;
  readonly config: () => Config;
  readonly catalog: Catalog;
  readonly resolution: ServerResolution;
  readonly onLookup: (server: string, found: boolean) => void;
  readonly hasOwnFolder: (session: Session) => boolean;
}

export function createCallCache(parts: CallCacheParts): CallCache {
  const { cache, config, catalog, resolution, onLookup, hasOwnFolder } = parts;
  const rules = new WeakMap<Config, Map<string, string>>();
  const definitions = new WeakMap<Offer, Map<string, string>>();

  function findServerSettings(server: string) {
    const all = config().servers;
    const cached = Object.hasOwn(all, server) ? all[server]?.cache : undefined;
    return cached === undefined || Object.keys(cached).length === 0 ? undefined : cached;
  }

  function findToolSetting(server: ServerDefinition, message: Message) {
    const cached = findServerSettings(server.name);
    const tool = cached === undefined ? undefined : readToolName(message);
    return tool !== undefined && cached !== undefined && Object.hasOwn(cached, tool) ? cached[tool] : undefined;
  }

  /** Returns a digest of all settings that decide what a call to this server may do. */
  function rulesRevision(server: string): string {
    const now = config();
    const known = rules.get(now) ?? new Map<string, string>();
    rules.set(now, known);
    let revision = known.get(server);
    if (revision === undefined) {
      revision = sha256Hex(
        toCanonicalJson([now.rules, now.workspaces, now.workspacePatterns, now.servers[server], now.context]),
      );
      known.set(server, revision);
    }
    return revision;
  }

  /** Returns a digest of the tool's definition; undefined if it is unknown, and then nothing is cached. */
  async function findDefinition(call: CachedCall): Promise<string | undefined> {
    const { session, upstream, message, era, capabilities, ask } = call;
    const query = { era, capabilities, owner: resolution.listOwnerFor(session, upstream), ask };
    const { offer } = await catalog.list(upstream, { ...query, scopeKey: sessionScopeKey(session) });
    if (offer === undefined) return undefined;
    let known = definitions.get(offer);
    if (known === undefined) {
      known = new Map(
        offer.tools.map((text) => [(JSON.parse(text) as { name?: string })?.name ?? '', sha256Hex(text)]),
      );
      definitions.set(offer, known);
    }
    return known.get(readToolName(message) ?? '');
  }

  function findPartition({ session, upstream, message }: CachedCall): CachePartition | undefined {
    const setting = findToolSetting(upstream, message);
    if (setting === undefined) return undefined;
    const now = resolution.admit(session, upstream);
    // Anonymous callers are several people, and own folders contain different files.
    const alone = (setting.per === 'user' && now.userId === anonymousUser) || hasOwnFolder(now);
    const per = alone ? 'session' : setting.per;
    return partitionOf(per, now, resolution.personalKey(now, upstream));
  }

  function createKey(
    call: CachedCall,
    digest: string,
    definition: string,
    partition: CachePartition | undefined,
  ): string {
    const { upstream, message, headers, capabilities, replyForm } = call;
    const facts = [
      upstream.name,
      upstream.definitionHash,
      readToolName(message),
      definition,
      digest,
      partition?.name ?? null,
    ];
    const form = [rulesRevision(upstream.name), replyForm, capabilities, toCanonicalJson(headers())];
    return sha256Hex(JSON.stringify([...facts, ...form]));
  }

  /** Checks the key again: a result that depends on a new credential of the user must not be shared. */
  function isSameKey(key: string, call: CachedCall, digest: string, definition: string): boolean {
    try {
      return createKey(call, digest, definition, findPartition(call)) === key;
    } catch {
      return false;
    }
  }

  return {
    cachesServer: (server) => findServerSettings(server) !== undefined,
    cachesTool: (server, message) => findToolSetting(server, message) !== undefined,

    async answer(call, forward) {
      const digest = callDigest(call.message);
      const definition = digest === undefined ? undefined : await findDefinition(call);
      const partition = findPartition(call);
      const setting = findToolSetting(call.upstream, call.message);
      if (digest === undefined || definition === undefined || partition === undefined || setting === undefined) {
        return forward(call.channel);
      }
      const key = createKey(call, digest, definition, partition);
      const found = cache.find(key);
      if (found !== undefined) {
        const kept = await found;
        if (call.channel.isGone()) return acceptedReply;
        // The session or the rules may have changed while the call waited.
        if (kept !== undefined && createKey(call, digest, definition, findPartition(call)) === key) {
          onLookup(call.upstream.name, true);
          return replayResult(kept, call);
        }
      }
      onLookup(call.upstream.name, false);
      let reply: FinalReply | undefined;
      await cache.load(key, partition.owner, async () => {
        const listening = watchChannel(call);
        reply = await forward(listening.channel);
        if (!listening.silent() || !isSameKey(key, call, digest, definition)) return undefined;
        const { severalUsers } = partition;
        return readCacheable(reply, { ttlMs: setting.ttlSeconds * 1000, severalUsers, from: call.correlationId });
      });
      return reply as FinalReply;
    },
  };
}

function replayResult(kept: CachedResult, { message, entry }: CachedCall): FinalReply {
  entry.cached = kept.from;
  const bytes = applyEdits(kept.bytes, [replaceValue(kept.id, message.id as string)]);
  return { kind: 'message', bytes, ...(kept.status === undefined ? {} : { status: kept.status }) };
}

/** Wraps the channel to notice messages before the answer, which the cache could not repeat. */
function watchChannel({ channel, caller }: CachedCall): { readonly channel: Channel; silent(): boolean } {
  const pushes = caller?.pushCount();
  let isUsed = false;
  return {
    silent: () => !isUsed && caller?.pushCount() === pushes,
    channel: watchEmits(channel, () => {
      isUsed = true;
    }),
  };
}

/**
 * Returns a digest of a call that does not depend on order and spacing. Undefined for calls that cannot be cached:
 * answers to questions, tasks, values that RFC 8785 cannot represent.
 */
export function callDigest({ bytes, params, meta }: Message): string | undefined {
  const shape = params?.shape;
  const names = (shape?.members ?? []).map(({ key }) => key);
  // The server may read the other one of two members with the same name.
  if (names.some((name, index) => !plainMembers.has(name) || names.indexOf(name) !== index)) return undefined;
  const given = findMember(shape, 'arguments');
  const args = given === undefined ? noArgumentsDigest : computeArgumentsDigest(bytes.subarray(given.start, given.end));
  if (args === undefined) return undefined;
  const relevant = (meta?.members ?? []).filter(({ key }) => !ignoredMetaKeys.has(key));
  if (relevant.length === 0) return args;
  const text = (member: JsonMember) => `${JSON.stringify(member.key)}:${readRawValue(bytes, member)}`;
  const rest = computeArgumentsDigest(Buffer.from(`{${relevant.map(text).join(',')}}`));
  return rest === undefined ? undefined : `${args} ${rest}`;
}

/**
 * Returns the partition of a session. Only sessions with the same trust level, permissions and workspace share results.
 * If the server gets something personal of a user (`personal`), only sessions of that user share them.
 */
export function partitionOf(per: CacheSharing, session: PartitionSession, personal: string): CachePartition {
  const { id, userId, workspaceId, trustLevel, permissions } = session;
  const chosen = per === 'workspace' && workspaceId === undefined ? 'session' : per;
  const who = { session: id, user: userId, workspace: personal === '' ? '' : userId }[chosen];
  const parts = [chosen, who, workspaceId ?? null, trustLevel, [...new Set(permissions)].sort(), personal];
  return {
    name: JSON.stringify(parts),
    owner: chosen === 'session' ? id : undefined,
    severalUsers: chosen === 'workspace' && personal === '',
  };
}
