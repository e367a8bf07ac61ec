import { AmbitError } from '../../errors.ts';
import { foldKey } from '../../wire/fold-key.ts';
import type { Message } from '../../wire/message.ts';
import { shapeAt, stringAt } from '../../wire/scan.ts';
import type { ServerDefinition } from '../definition.ts';

type Asker = Pick<ServerDefinition, 'name' | 'push'>;
type PushKind = keyof ServerDefinition['push'];

/** The questions a server can ask, and which switch of `servers.*.push` decides on each. */
export const pushKinds: ReadonlyMap<string, PushKind> = new Map([
  ['sampling/createMessage', 'sampling'],
  ['elicitation/create', 'elicitation'],
  ['roots/list', 'roots'],
]);

/** Why this server may not ask this question; undefined when it may. */
export function refusalOfQuestion(server: Asker, method: string): AmbitError | undefined {
  const kind = pushKinds.get(method);
  if (kind === undefined || server.push[kind]) return undefined;
  return new AmbitError('PUSH_DENIED', { rule: `servers.${server.name}.push.${kind}` });
}

/** The same for the questions inside a result or a notification, where servers of MCP 2026-07-28 ask them. */
export function refusalOfQuestionsIn(server: Asker, message: Message): AmbitError | undefined {
  const { sampling, elicitation, roots } = server.push;
  if (sampling && elicitation && roots) return undefined;
  const { bytes } = message;
  for (const member of (message.params ?? message.result)?.shape?.members ?? []) {
    if (foldKey(member.key) !== 'inputrequests') continue;
    for (const question of shapeAt(bytes, member)?.members ?? []) {
      for (const part of shapeAt(bytes, question)?.members ?? []) {
        if (foldKey(part.key) !== 'method') continue;
        const refusal = refusalOfQuestion(server, stringAt(bytes, part) ?? '');
        if (refusal !== undefined) return refusal;
      }
    }
  }
  return undefined;
}
