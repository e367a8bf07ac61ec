import * as z from 'zod';
import type { SessionRecord } from '../../stores/record.ts';
import type { SessionStore } from '../../stores/store.ts';
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

const scopeSchema = z.string().describe('Where it comes from: org, team:T, user:U or workspace:W.');

/** The fields that agents see. A new field of a session is hidden from them unless it is listed here. */
const shownSession = sessionSchema.pick({
  id: true,
  name: true,
  userId: true,
  agentId: true,
  workspaceId: true,
  parentId: true,
  trustLevel: true,
  servers: true,
  permissions: true,
  createdAt: true,
  lastActiveAt: true,
  expiresAt: true,
  endsAt: true,
  ttlSeconds: true,
});

const sessionOutput = shownSession.extend({ current: z.boolean().describe('Whether this call belongs to it.') });

export interface SessionToolsParts {
  readonly reach: SessionReach;
  readonly sessions: Pick<Sessions, 'end'>;
  readonly store: Pick<SessionStore, 'usage'>;
  /** Absent where there are no policies. */
  readonly contextOf?: ReadPolicyContext | undefined;
}

/** The tools by which an agent looks after its sessions. */
export function sessionTools({ reach, sessions, store, contextOf }: SessionToolsParts): readonly Tool[] {
  return [
    sessionInfo(reach, store),
    sessionList(reach),
    sessionEnd(reach, sessions),
    ...(contextOf === undefined ? [] : [sessionContext(reach, contextOf)]),
  ];
}

function sessionInfo(reach: SessionReach, store: Pick<SessionStore, 'usage'>): Tool {
  return defineTool({
    name: 'session_info',
    title: 'About a session',
    description: 'What a session is: its bounds, how long it lives, and what it has used so far.',
    effect: 'reads',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({
      session: sessionOutput,
      use: z
        .strictObject({ calls: z.number(), bytes: z.number(), underWay: z.number() })
        .describe('Calls of tools so far, what they carried, and how many are under way.'),
    }),
    async run({ session }, caller) {
      const record = await reach.find(session, caller);
      const use = await store.usage(record.id);
      if (use === undefined) throw sessionNotFoundError();
      const { calls, bytes, underWay } = use;
      return { session: describeSession(record, caller.session), use: { calls, bytes, underWay } };
    },
  });
}

function sessionList(reach: SessionReach): Tool {
  return defineTool({
    name: 'session_list',
    title: 'Sessions within reach',
    description:
      'The live sessions you can reach, the oldest first: the session this call belongs to and those it opened, and for a user who is bound to none every session of that user.',
    effect: 'reads',
    input: z.strictObject({
      session: sessionArgument,
      workspace: z.string().min(1).max(128).optional().describe('Only those in this workspace.'),
      cursor: z.string().min(1).max(256).optional().describe('"next" of the page before.'),
      limit: limitArgument.describe(`At most this many; ${defaultLimit} unless told.`),
    }),
    output: z.strictObject({
      sessions: z.array(sessionOutput),
      next: z.string().nullable().describe('The cursor of the next page; null when this is the last.'),
    }),
    async run({ session, workspace, cursor, limit = defaultLimit }, caller) {
      if (session !== undefined) await reach.find(session, caller);
      const page = await reach.list(caller, { workspaceId: workspace, after: cursor, limit });
      return { sessions: page.sessions.map((record) => describeSession(record, caller.session)), next: page.next };
    },
  });
}

function sessionEnd(reach: SessionReach, sessions: Pick<Sessions, 'end'>): Tool {
  return defineTool({
    name: 'session_end',
    title: 'End a session',
    description:
      'Ends a session for good, with its processes, its state and the sessions it opened. "current" ends the one this call belongs to: nothing can be called in it afterwards.',
    effect: 'destroys',
    input: z.strictObject({ session: sessionArgument }),
    output: z.strictObject({ id: z.string(), ended: z.literal(true) }),
    async run({ session }, caller) {
      const { id } = await reach.find(session, caller);
      // Another caller may have ended it meanwhile.
      if (!(await sessions.end(id))) throw sessionNotFoundError();
      return { id, ended: true as const };
    },
  });
}

function sessionContext(reach: SessionReach, contextOf: ReadPolicyContext): Tool {
  return defineTool({
    name: 'session_context',
    title: 'Policies and objectives',
    description:
      'The policies to keep to and the objectives of the work, as they hold now: the block that the first result of a session begins with, with nothing cut.',
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
