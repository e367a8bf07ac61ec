import * as z from 'zod';
import type { Reach } from './reach.ts';
import { sessionArgument, shownSession, showSession } from './shown-session.ts';
import { type Tool, tool } from './tool.ts';

const usual = 50;
const most = 200;

export function sessionList(reach: Reach): Tool {
  return tool({
    name: 'session_list',
    title: 'Sessions within reach',
    description:
      'The live sessions you can reach, the oldest first: the session this call belongs to and those it opened, and for a user who is bound to none every session of that user.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      workspace: z.string().min(1).max(128).optional().describe('Only those in this workspace.'),
      cursor: z.string().min(1).max(256).optional().describe('"next" of the page before.'),
      limit: z.number().int().min(1).max(most).optional().describe(`At most this many; ${usual} unless told.`),
    }),
    output: z.strictObject({
      sessions: z.array(shownSession),
      next: z.string().nullable().describe('The cursor of the next page; null when this is the last.'),
    }),
    async run({ session, workspace, cursor, limit = usual }, caller) {
      if (session !== undefined) await reach.find(session, caller);
      const page = await reach.list(caller, { workspaceId: workspace, after: cursor, limit });
      return { sessions: page.sessions.map((record) => showSession(record, caller.session)), next: page.next };
    },
  });
}
