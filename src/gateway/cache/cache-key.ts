import { computeArgumentsDigest, noArgumentsDigest } from '../../context/for-tools/arguments-digest.ts';
import { findMember, type JsonMember, readRawValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import type { ActingSession } from '../../rules/session-base.ts';

export type CacheSharing = 'session' | 'user' | 'workspace';

/** The fields of a session that decide with whom it may share a result. */
export type PartitionSession = Omit<ActingSession, 'agentId'>;

export interface CachePartition {
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
