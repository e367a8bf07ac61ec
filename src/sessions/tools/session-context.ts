import * as z from 'zod';
import type { Reach } from './reach.ts';
import { sessionArgument } from './shown-session.ts';
import { shown, type Tool, tool } from './tool.ts';

/** What somebody in some workspace is given to read. */
export type ContextOf = (person: { readonly userId: string; readonly workspaceId: string | undefined }) => Promise<{
  readonly text: string;
  readonly policies: readonly {
    readonly name: string;
    readonly mode: 'prepend' | 'append';
    readonly scope: string;
    readonly text: string;
  }[];
  readonly objectives: readonly { readonly scope: string; readonly text: string }[];
}>;

const scope = z.string().describe('Where it comes from: org, team:T, user:U or workspace:W.');

export function sessionContext(reach: Reach, contextOf: ContextOf): Tool {
  return tool({
    name: 'session_context',
    title: 'Policies and objectives',
    description:
      'The policies to keep to and the objectives of the work, as they hold now: the block that the first result of a session begins with, with nothing cut.',
    effect: 'reads',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({
      policies: z.array(
        z.strictObject({ name: z.string(), mode: z.enum(['prepend', 'append']), scope, text: z.string() }),
      ),
      objectives: z.array(z.strictObject({ scope, text: z.string() })),
    }),
    async run({ session }, caller) {
      const { id, userId, workspaceId } = await reach.find(session, caller);
      // A workspace that was announced holds for this call, and stands in no record.
      const here = id === caller.session.id ? caller.session.workspaceId : undefined;
      const found = await contextOf({ userId, workspaceId: here ?? workspaceId ?? undefined });
      const policies = found.policies.map(({ name, mode, scope: from, text }) => ({ name, mode, scope: from, text }));
      const objectives = found.objectives.map(({ scope: from, text }) => ({ scope: from, text }));
      return shown({ policies, objectives }, { type: 'text', text: found.text });
    },
  });
}
