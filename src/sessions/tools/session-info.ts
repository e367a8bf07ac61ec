import * as z from 'zod';
import type { SessionStore } from '../../stores/store.ts';
import { notFound, type Reach } from './reach.ts';
import { sessionArgument, shownSession, showSession } from './shown-session.ts';
import { type Tool, tool } from './tool.ts';

export function sessionInfo(reach: Reach, store: Pick<SessionStore, 'usage'>): Tool {
  return tool({
    name: 'session_info',
    title: 'About a session',
    description: 'What a session is: its bounds, how long it lives, and what it has used so far.',
    effect: 'reads',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({
      session: shownSession,
      use: z
        .strictObject({ calls: z.number(), bytes: z.number(), underWay: z.number() })
        .describe('Calls of tools so far, what they carried, and how many are under way.'),
    }),
    async run({ session }, caller) {
      const record = await reach.find(session, caller);
      const use = await store.usage(record.id);
      if (use === undefined) throw notFound();
      const { calls, bytes, underWay } = use;
      return { session: showSession(record, caller.session), use: { calls, bytes, underWay } };
    },
  });
}
