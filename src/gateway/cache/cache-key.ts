import { argumentsDigest, noArgumentsDigest } from '../../context/for-tools/arguments-digest.ts';
import { type Member, memberOf, rawAt } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import type { ActingSession } from '../../rules/session-base.ts';

export type CacheSharing = 'session' | 'user' | 'workspace';

/** The part of a session that decides with whom it may share a result. */
export type PartitionSession = Omit<ActingSession, 'agentId'>;

export interface CachePartition {
  /** Equal for those who may share, and for nobody else. */
  readonly name: string;
  /** The session it ends with, where it is one session's own. */
  readonly owner: string | undefined;
  readonly severalUsers: boolean;
}

/** All that a call that can be answered from a cache may say; with more it is something else than a plain call. */
const plainMembers: ReadonlySet<string> = new Set(['name', 'arguments', '_meta']);

/** Keys of `_meta` that do not change what a tool answers: how the call is watched, and how the client is made. */
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
 * What a call asks, equal for two calls that ask the same whatever order and spacing they were written in. Undefined
 * for what has no such form: an answer to a question, a task, values that RFC 8785 cannot hold.
 */
export function callDigest({ bytes, params, meta }: Message): string | undefined {
  const shape = params?.shape;
  const names = (shape?.members ?? []).map(({ key }) => key);
  // Of a name met twice, the server may read the other one.
  if (names.some((name, index) => !plainMembers.has(name) || names.indexOf(name) !== index)) return undefined;
  const given = memberOf(shape, 'arguments');
  const args = given === undefined ? noArgumentsDigest : argumentsDigest(bytes.subarray(given.start, given.end));
  if (args === undefined) return undefined;
  const told = (meta?.members ?? []).filter(({ key }) => !ignoredMetaKeys.has(key));
  if (told.length === 0) return args;
  const text = (member: Member) => `${JSON.stringify(member.key)}:${rawAt(bytes, member)}`;
  const rest = argumentsDigest(Buffer.from(`{${told.map(text).join(',')}}`));
  return rest === undefined ? undefined : `${args} ${rest}`;
}

/**
 * Who shares results. Whatever is chosen, only sessions of the same trust, the same permissions and the same workspace
 * do; and where a server is given something of a user (`personal`), only sessions of that user.
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
