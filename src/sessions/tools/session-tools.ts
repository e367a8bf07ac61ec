import * as z from 'zod';
import { invalidCursorError, type PageCursors } from '../../stores/page-cursors.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { applyTokenPermissions } from '../narrowed-sessions.ts';
import { type Session, sessionViewOf } from '../session.ts';
import { sessionSchema } from '../session-schema.ts';
import type { Sessions } from '../sessions.ts';
import { type SessionReach, sessionNotFoundError } from './reach.ts';
import { defineTool, sessionArgument, type Tool, withBlocks } from './tool.ts';

const defaultLimit = 50;
const limitArgument = z.number().int().min(1).max(200).optional();

type ScopedText = { readonly scope: string; readonly text: string };

/** Reads the policies and objectives for a user in a workspace. */
export type ReadPolicyContext = (person: { userId: string; workspaceId: string | undefined }) => Promise<{
  readonly text: string;
  readonly policies: readonly (ScopedText & { readonly name: string; readonly mode: 'prepend' | 'append' })[];
  readonly objectives: readonly ScopedText[];
}>;

const scopeSchema = z.string().describe('Scope it is defined in: org, team:T, user:U or workspace:W.');

/** The fields that agents see. A new field of a session is hidden from them unless it is listed here. */
export const shownSession = sessionSchema.pick({
  id: true,
  name: true,
  userId: true,
  agentId: true,
  workspaceId: true,
  parentId: true,
  task: true,
  quotas: true,
  trustLevel: true,
  servers: true,
  permissions: true,
  createdAt: true,
  lastActiveAt: true,
  expiresAt: true,
  endsAt: true,
  ttlSeconds: true,
});

const sessionOutput = shownSession.extend({ current: z.boolean().describe('Whether this call runs in this session.') });

export interface SessionToolsParts {
  readonly reach: SessionReach;
  readonly sessions: Pick<Sessions, 'end' | 'usage'>;
  readonly cursors: PageCursors;
}

/** The tools by which an agent looks after its sessions. */
export function sessionTools({ reach, sessions, cursors }: SessionToolsParts): readonly Tool[] {
  return [sessionInfo(reach, sessions), sessionList(reach, cursors), sessionEnd(reach, sessions)];
}

function sessionInfo(reach: SessionReach, sessions: Pick<Sessions, 'usage'>): Tool {
  return defineTool({
    name: 'session_info',
    title: 'Show a session',
    description: 'Shows a session: its limits, when it expires, and its usage so far.',
    effect: 'reads',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({
      session: sessionOutput,
      use: z
        .strictObject({ calls: z.number(), bytes: z.number(), underWay: z.number() })
        .describe(
          'Tool calls so far with this one, the bytes of those that have ended, and the number of unfinished calls.',
        ),
    }),
    async run({ session }, caller) {
      const record = await reach.find(session, caller);
      const use = await sessions.usage(record.id);
      if (use === undefined) throw sessionNotFoundError();
      return { session: describeSession(record, caller.session), use };
    },
  });
}

function sessionList(reach: SessionReach, cursors: PageCursors): Tool {
  return defineTool({
    name: 'session_list',
    title: 'List sessions',
    description:
      'Lists the live sessions you can access, oldest first: the session of this call and the sessions it opened. A user who is not bound to one session sees all of their sessions.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      workspace: z.string().min(1).max(128).optional().describe('Only sessions in this workspace.'),
      cursor: z.string().min(1).max(2048).optional().describe('Value of "next" from the previous page.'),
      limit: limitArgument.describe(`Maximum number of sessions. Default: ${defaultLimit}.`),
    }),
    output: z.strictObject({
      sessions: z.array(sessionOutput),
      next: z.string().nullable().describe('Cursor for the next page; null on the last page.'),
    }),
    async run({ session, workspace, cursor, limit = defaultLimit }, caller) {
      if (session !== undefined) await reach.find(session, caller);
      const bindings = ['session_list', caller.session.id, workspace ?? ''];
      const after = cursor === undefined ? undefined : await cursors.open(cursor, bindings);
      if (cursor !== undefined && after === undefined) throw invalidCursorError();
      const page = await reach.list(caller, { workspaceId: workspace, after, limit });
      const next = page.next === null ? null : await cursors.seal(page.next, bindings);
      return { sessions: page.sessions.map((record) => describeSession(record, caller.session)), next };
    },
  });
}

function sessionEnd(reach: SessionReach, sessions: Pick<Sessions, 'end'>): Tool {
  return defineTool({
    name: 'session_end',
    title: 'End a session',
    description:
      'Ends a session permanently, with its processes, its state and the sessions it opened. "current" ends the session of this call; no further call is possible in it.',
    effect: 'destroys',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({ id: z.string(), ended: z.literal(true) }),
    async run({ session }, caller) {
      // With a number alone, a repeated call could end another session that has the same number.
      const { id } = await reach.find(session, caller, { isExact: true });
      // Another caller may have ended it meanwhile.
      if (!(await sessions.end(id))) throw sessionNotFoundError();
      return { id, ended: true as const };
    },
  });
}

/** The tool by which an agent reads its policies and objectives again. */
export function sessionContext(reach: SessionReach, contextOf: ReadPolicyContext): Tool {
  return defineTool({
    name: 'session_context',
    title: 'Policies and objectives',
    description:
      'Returns the current policies you must follow and the objectives of the work. This is the full text of the block at the start of the first result.',
    effect: 'reads',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({
      policies: z.array(
        z.strictObject({ name: z.string(), mode: z.enum(['prepend', 'append']), scope: scopeSchema, text: z.string() }),
      ),
      objectives: z.array(z.strictObject({ scope: scopeSchema, text: z.string() })),
    }),
    async run({ session }, caller) {
      const { id, userId, workspaceId } = await reach.find(session, caller);
      // A workspace that the client selected holds for this call and is in no record.
      const here = id === caller.session.id ? caller.session.workspaceId : undefined;
      const found = await contextOf({ userId, workspaceId: here ?? workspaceId ?? undefined });
      const policies = found.policies.map(({ name, mode, scope: from, text }) => ({ name, mode, scope: from, text }));
      const objectives = found.objectives.map(({ scope: from, text }) => ({ scope: from, text }));
      return withBlocks({ policies, objectives }, { type: 'text', text: found.text });
    },
  });
}

function describeSession(record: SessionRecord, current: Session): z.input<typeof sessionOutput> {
  const { permissions, ...rest } = shownSession.parse(sessionViewOf(record));
  return {
    ...rest,
    permissions: applyTokenPermissions(permissions, current.tokenPermissions),
    current: record.id === current.id,
  };
}
