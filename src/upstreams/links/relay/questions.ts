import { AmbitError } from '../../../errors.ts';
import { applyEdits, type Edit, replaceValue } from '../../../protocol/json/edit.ts';
import { readsAs } from '../../../protocol/json/fold-key.ts';
import { findMember, type ObjectShape, readShape, readStringValue, scanObject } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';
import type { ServerDefinition } from '../../definition.ts';

type AskingServer = Pick<ServerDefinition, 'name' | 'push'>;
type PushKind = keyof ServerDefinition['push'];

/** The questions that a server can ask, with the switch of `servers.*.push` for each. */
export const pushKinds: ReadonlyMap<string, PushKind> = new Map([
  ['sampling/createMessage', 'sampling'],
  ['elicitation/create', 'elicitation'],
  ['roots/list', 'roots'],
]);

/** Finds the reason why this server may not ask this question; undefined when it may. */
export function findQuestionRefusal(server: AskingServer, method: string): AmbitError | undefined {
  const kind = pushKinds.get(method);
  if (kind === undefined || server.push[kind]) return undefined;
  return new AmbitError('PUSH_DENIED', { rule: `servers.${server.name}.push.${kind}` });
}

/** The same for questions inside a result or a notification, where servers of MCP 2026-07-28 ask them. */
export function findQuestionRefusalIn(server: AskingServer, message: Message): AmbitError | undefined {
  const { bytes } = message;
  const holder = (message.params ?? message.result)?.shape;
  const asking = holder?.members.filter(({ key }) => readsAs(key, 'inputrequests')) ?? [];
  const [requests] = asking;
  if (holder === undefined || requests === undefined) return undefined;
  if (asking.length > 1 || requests.key !== 'inputRequests' || isRepeated(holder, 'resulttype'))
    return ambiguousError(server);
  for (const question of readShape(bytes, requests)?.members ?? []) {
    const parts = readShape(bytes, question);
    if (parts === undefined) continue;
    if (isRepeated(parts, 'method') || isRepeated(parts, 'params')) return ambiguousError(server);
    const refusal = findQuestionRefusal(server, readStringValue(bytes, findMember(parts, 'method')) ?? '');
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

/** True when a member is there twice or in another spelling: readers would take different ones. */
function isRepeated({ members }: ObjectShape, folded: string): boolean {
  return members.filter(({ key }) => readsAs(key, folded)).length > 1;
}

function ambiguousError({ name }: AskingServer): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${name}" sent an ambiguous request for input.`,
  });
}

/**
 * Puts the name of the asking server before a question to a person, for clients that see several servers at one address.
 * `params` is JSON text. A question that begins with the name already stays as it is.
 */
export function prefixAsker(server: string, method: string, params: string): string {
  if (method !== 'elicitation/create') return params;
  const bytes = Buffer.from(params);
  const name = `${server} asks: `;
  const edits: Edit[] = [];
  // A server may write it twice, and readers differ in which one they take.
  for (const member of scanObject(bytes).members.filter(({ key }) => key === 'message')) {
    const words = readStringValue(bytes, member);
    if (words?.startsWith(name) === false) edits.push(replaceValue(member, JSON.stringify(name + words)));
  }
  return edits.length === 0 ? params : applyEdits(bytes, edits).toString('utf8');
}
