import type { Reply } from '../../protocol/channel.ts';
import { type Member, memberOf, rawAt, stringAt } from '../../protocol/json/scan.ts';
import { idMember, readMessage } from '../../protocol/message.ts';
import type { Brought } from './result-cache.ts';

export interface KeepingTerms {
  readonly ttlMs: number;
  /** Whether those who share a result may be several users. */
  readonly severalUsers: boolean;
  readonly from: string;
}

const handles = ['io.modelcontextprotocol/related-task', 'io.modelcontextprotocol/subscriptionId'];

/**
 * Whether an answer may be given again, and for how long: a complete result that is no error and hands out nothing that
 * belongs to one call. What the server says about keeping it only narrows what the operator allows.
 */
export function mayKeep(reply: Reply, terms: KeepingTerms): Brought {
  if (reply.kind !== 'message') return undefined;
  const message = readMessage(reply.bytes);
  const { bytes, result } = message;
  const shape = result?.shape;
  if (shape === undefined) return undefined;
  const at = (key: string): Member | undefined => memberOf(shape, key);
  // Of a name met twice, the client may read the other one.
  if (new Set(shape.members.map(({ key }) => key)).size < shape.members.length) return undefined;
  const error = at('isError');
  if (error !== undefined && rawAt(bytes, error) !== 'false') return undefined;
  const type = at('resultType');
  if (type !== undefined && stringAt(bytes, type) !== 'complete') return undefined;
  if (at('task') ?? at('requestState') ?? at('inputRequests')) return undefined;
  if (handles.some((key) => memberOf(message.meta, key) !== undefined)) return undefined;
  const scope = at('cacheScope');
  const allowed = terms.severalUsers ? ['public'] : ['public', 'private'];
  if (scope !== undefined && !allowed.includes(stringAt(bytes, scope) ?? '')) return undefined;
  const ttlMs = Math.min(terms.ttlMs, ttlOf(bytes, at('ttlMs')));
  if (!(ttlMs > 0)) return undefined;
  const { start, end } = idMember(message);
  return { kept: { bytes, id: { start, end }, status: reply.status, from: terms.from }, ttlMs };
}

function ttlOf(bytes: Buffer, member: Member | undefined): number {
  if (member === undefined) return Number.POSITIVE_INFINITY;
  const written = rawAt(bytes, member);
  return /^\d+(?:\.\d+)?$/.test(written) ? Number(written) : 0;
}
