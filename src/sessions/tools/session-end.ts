import * as z from 'zod';
import type { Sessions } from '../sessions.ts';
import { notFound, type Reach } from './reach.ts';
import { sessionArgument } from './shown-session.ts';
import { type Tool, tool } from './tool.ts';

export function sessionEnd(reach: Reach, sessions: Pick<Sessions, 'end'>): Tool {
  return tool({
    name: 'session_end',
    title: 'End a session',
    description:
      'Ends a session for good, with its processes, its state and the sessions it opened. "current" ends the one this call belongs to: nothing can be called in it afterwards.',
    effect: 'destroys',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({ id: z.string(), ended: z.literal(true) }),
    async run({ session }, caller) {
      const { id } = await reach.find(session, caller);
      // Somebody else may have been faster; then there is no such session any more.
      if (!(await sessions.end(id))) throw notFound();
      return { id, ended: true as const };
    },
  });
}
