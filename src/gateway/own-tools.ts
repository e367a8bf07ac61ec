import { AmbitError } from '../errors.ts';
import type { Session } from '../sessions/session.ts';
import type { Toolset } from '../tools/toolset.ts';
import type { Reply } from '../wire/channel.ts';
import { resultMessage } from '../wire/compose.ts';
import { readJudged } from '../wire/judged-value.ts';
import type { Message } from '../wire/message.ts';
import { memberOf, rawAt } from '../wire/scan.ts';
import type { Arrived, InSession } from './exchange.ts';
import { type ToolBounds, toolOf } from './tool-bounds.ts';

/** Where Ambit's own tools are to be found by themselves; no server can have this name. */
export const ownServer = 'ambit';

/** Ambit's own tools, within the bounds of whoever calls them. */
export interface OwnTools {
  has(name: string): boolean;
  /** As `tools/list` has them: those that some call of this session could be allowed for. */
  texts(session: Session): readonly string[];
  call(exchange: InSession<Arrived>): Promise<Reply>;
}

export function createOwnTools(tools: Toolset, bounds: ToolBounds): OwnTools {
  let listed: readonly { readonly name: string; readonly text: string }[] | undefined;
  return {
    has: tools.has,

    texts(session) {
      const shown = bounds.shown(session, ownServer) ?? (() => true);
      listed ??= tools.list().map((definition) => ({ name: definition.name, text: JSON.stringify(definition) }));
      return listed.filter(({ name }) => shown(name)).map(({ text }) => text);
    },

    async call({ message, session, principal, correlationId, entry, era }) {
      const name = toolOf(message) ?? '';
      entry.rule = bounds.admit(session, ownServer, name, message);
      const result = await tools.run(name, argumentsOf(message), { session, principal, correlationId });
      const whole = era === 'modern' ? { resultType: 'complete', ...result } : result;
      return { kind: 'message', bytes: resultMessage(message.id as string, JSON.stringify(whole)), status: 200 };
    },
  };
}

/** What would not be kept as it was sent is refused: a number beyond a double, a name twice. */
function argumentsOf({ bytes, params }: Message): unknown {
  const member = memberOf(params?.shape, 'arguments');
  if (member === undefined) return {};
  const text = rawAt(bytes, member);
  const judged = readJudged(text, new Set());
  if (judged.kind === 'read') return JSON.parse(text) as unknown;
  throw new AmbitError('REQUEST_INVALID', { what: `The arguments cannot be taken: ${judged.reason}.` });
}
