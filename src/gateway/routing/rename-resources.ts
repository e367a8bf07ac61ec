import type { FinalReply } from '../../protocol/channel.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findReading } from '../../protocol/json/fold-key.ts';
import { decodeStringToken, walkStrings } from '../../protocol/json/json-strings.ts';
import { readMessage } from '../../protocol/message.ts';
import { isAppUriPath } from '../../upstreams/catalog/list-entries.ts';

/** A resource address in a result, and its position. */
export interface ResourceUri {
  readonly uri: string;
  /** True if the result contains the resource itself, not only a link to it. */
  readonly isContained: boolean;
  readonly start: number;
  readonly end: number;
}

/** Every address that is looked for is in or beside a member with this word in its name. */
const mark = Buffer.from('esource');
/** Starts the escape of a letter: a name may be written with one. */
const escaped = Buffer.from('\\u');

/** The places of resource addresses: in the results of tools, prompts and `resources/read`. */
const paths: ReadonlyMap<string, { readonly isContained: boolean }> = new Map([
  ['content uri', { isContained: false }],
  ['content resource uri', { isContained: true }],
  ['messages content uri', { isContained: false }],
  ['messages content resource uri', { isContained: true }],
  ['contents uri', { isContained: true }],
]);
/** A modern `tasks/get` has the result of the call in this member. */
const taskResult = 'result';
const keyNames = new Set([taskResult, ...[...paths.keys()].flatMap((path) => path.split(' '))]);
const maxDepth = 4;

/** Finds the resource addresses in the result of a tool or a prompt. A result without any is not parsed. */
export function findResourceUris(bytes: Buffer): ResourceUri[] {
  return bytes.includes(mark) || bytes.includes(escaped) ? findUris(bytes) : [];
}

/** Finds all resource addresses in a result. */
export function findUris(bytes: Buffer): ResourceUri[] {
  const { result } = readMessage(bytes);
  const found: ResourceUri[] = [];
  if (result === undefined) return found;
  walkStrings(bytes, result.start, result.end, (start, end, path, isKey) => {
    if (isKey || path.length < 2) return;
    const keys = findReading(path[0] as string, keyNames) === taskResult ? path.slice(1) : path;
    if (keys.length < 2 || keys.length > maxDepth) return;
    const isUri = findReading(keys.at(-1) as string, keyNames) === 'uri';
    const place = isUri ? paths.get(keys.map((key) => findReading(key, keyNames)).join(' ')) : undefined;
    if (place === undefined && !isAppUriPath(keys)) return;
    found.push({ uri: decodeStringToken(bytes, start, end), isContained: place?.isContained ?? false, start, end });
  });
  return found;
}

/** Replaces addresses in a reply. Only their values change, and nothing does if no address is renamed. */
export function replaceUris(
  reply: Extract<FinalReply, { kind: 'message' }>,
  uris: readonly ResourceUri[],
  rename: (uri: string) => string,
): FinalReply {
  const edits = uris.flatMap((found) => {
    const shown = rename(found.uri);
    return shown === found.uri ? [] : [replaceValue(found, JSON.stringify(shown))];
  });
  return edits.length === 0 ? reply : { ...reply, bytes: applyEdits(reply.bytes, edits) };
}
