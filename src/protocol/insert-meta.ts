import type { Edit } from './json/edit.ts';
import { findMember, type JsonMember, readShape } from './json/scan.ts';
import type { Message } from './message.ts';
import { ProtocolError } from './protocol-error.ts';

/**
 * Adds members to `params._meta`, and creates `_meta` and `params` if needed. `edits` are applied together with this
 * one, so members that they remove need no comma.
 */
export function insertMeta(message: Message, members: string, edits: readonly Edit[] = []): Edit {
  const params = message.params?.shape;
  if (message.meta !== undefined) {
    return insertAt(message.meta.start + 1, members, hasRemaining(message.meta.members, edits));
  }
  // The context for the upstream needs an object to be in.
  if (findMember(params, '_meta') !== undefined) throw new ProtocolError(-32602, 200, 'params._meta must be an object');
  if (params !== undefined) return insertAt(params.start + 1, `"_meta":{${members}}`, params.members.length > 0);
  return insertAt(message.shape.start + 1, `"params":{"_meta":{${members}}}`, true);
}

/** Adds members to the last `result._meta`, which most readers take. Undefined if there is no object for them. */
export function insertResultMeta(message: Message, members: string): Edit | undefined {
  const result = message.result?.shape;
  if (result === undefined) return undefined;
  const found = result.members.filter(({ key }) => key === '_meta').at(-1);
  if (found === undefined) return insertAt(result.start + 1, `"_meta":{${members}}`, result.members.length > 0);
  const meta = readShape(message.bytes, found);
  return meta === undefined ? undefined : insertAt(meta.start + 1, members, meta.members.length > 0);
}

function hasRemaining(members: readonly JsonMember[], edits: readonly Edit[]): boolean {
  if (edits.length === 0) return members.length > 0;
  return members.some(({ keyStart }) => !edits.some(({ start, end }) => start <= keyStart && keyStart < end));
}

function insertAt(at: number, text: string, more: boolean): Edit {
  return { start: at, end: at, text: more ? `${text},` : text };
}
