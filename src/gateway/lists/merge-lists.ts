import type { Reply } from '../../protocol/channel.ts';
import { applyEdits, removeMembers, replaceValue } from '../../protocol/json/edit.ts';
import { elementsAt, memberOf, rawAt, scanEntry, stringAt } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';

/** What a list calls its entries, and what tells one of them from another. */
export interface ListForm {
  readonly member: string;
  readonly name: string;
}

/** Lists that are the same for every session that could use the same. Resources are each session's own. */
export const listForms: ReadonlyMap<string, ListForm> = new Map([
  ['tools/list', { member: 'tools', name: 'name' }],
  ['prompts/list', { member: 'prompts', name: 'name' }],
  ['resources/templates/list', { member: 'resourceTemplates', name: 'uriTemplate' }],
]);

/** The cursor of the next page, where there is one. */
export function nextCursor(reply: Reply): string | undefined {
  const page = pageOf(reply);
  return page && stringAt(page.bytes, memberOf(page.result?.shape, 'nextCursor'));
}

/** Whether it is a result at all. */
export function isResult(reply: Reply): boolean {
  return pageOf(reply)?.result !== undefined;
}

/** The same question for another page. */
export function atCursor(message: Message, cursor: string): Message {
  const { params, bytes } = message;
  if (params?.shape === undefined) return message;
  const given = memberOf(params.shape, 'cursor');
  const text = JSON.stringify(cursor);
  const edit =
    given === undefined
      ? { start: params.start + 1, end: params.start + 1, text: `"cursor":${text},` }
      : replaceValue(given, text);
  return readMessage(applyEdits(bytes, [edit]));
}

/** The first of these pages with the entries of all, each once and as it was sent, and nothing to ask for after it. */
export function mergedList(first: Reply, others: readonly Reply[], { member, name }: ListForm): Reply {
  const page = pageOf(first);
  const list = memberOf(page?.result?.shape, member);
  if (page?.result?.shape === undefined || list === undefined || first.kind !== 'message') return first;
  const entries = new Map<string, string>();
  for (const text of [first, ...others].flatMap((reply) => entriesOf(reply, member))) {
    const key = nameIn(text, name);
    if (!entries.has(key)) entries.set(key, text);
  }
  const edits = [
    replaceValue(list, `[${[...entries.values()].join(',')}]`),
    ...removeMembers(page.result.shape, ({ key }) => key === 'nextCursor'),
  ];
  return { ...first, bytes: applyEdits(page.bytes, edits) };
}

function pageOf(reply: Reply): Message | undefined {
  return reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
}

function entriesOf(reply: Reply, member: string): string[] {
  const page = pageOf(reply);
  const list = memberOf(page?.result?.shape, member);
  return page === undefined || list === undefined
    ? []
    : elementsAt(page.bytes, list).map((at) => rawAt(page.bytes, at));
}

function nameIn(text: string, name: string): string {
  const bytes = Buffer.from(text);
  return stringAt(bytes, memberOf(scanEntry(bytes), name)) ?? text;
}
