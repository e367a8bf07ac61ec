import { z } from 'zod';
import type { Operator } from '../../../gateway/gateway.ts';
import { sessionViewOf } from '../../../sessions/session.ts';
import type { Limits } from '../../../stores/admission.ts';
import type { SessionRecord } from '../../../stores/record.ts';
import { defineRoute, nameReader, type RouteRequest, showSession } from '../route.ts';

const includable = ['activity', 'usage'] as const;
type Included = (typeof includable)[number];

const includeSchema = z
  .string()
  .transform((text, context): readonly Included[] => {
    const names = text.split(',').map((each) => each.trim());
    const unknown = names.find((name) => !includable.some((each) => each === name));
    if (unknown === undefined) return names as Included[];
    context.addIssue({ code: 'custom', message: `a comma-separated list of ${includable.join(' and ')}` });
    return z.NEVER;
  })
  .describe(
    'More members of each session, separated by commas. "activity": what it does now. "usage": its usage, limits and number of child sessions.',
  );

const pageLimit = (most: number, given: number) => ({
  type: 'integer' as const,
  minimum: 1,
  maximum: most,
  description: `Maximum number of sessions per page. Default: ${given}.`,
});

const maxIds = 100;

const idsSchema = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.string()).max(maxIds, `at most ${maxIds} ids, separated by commas`))
  .describe(
    `Only the sessions with these ids, separated by commas: at most ${maxIds}. Ids of sessions that are not live are ignored.`,
  );

const sessionsQuery = z.object({
  ids: idsSchema.exactOptional(),
  user: z.string().exactOptional().describe('Only sessions of this user.'),
  workspace: z.string().exactOptional().describe('Only sessions in this workspace.'),
  parent: z.string().exactOptional().describe('Only sessions opened by this session.'),
  include: includeSchema.exactOptional(),
  after: z.string().exactOptional().describe('Value of "next" from the previous page.'),
  // The store refuses other numbers.
  limit: z.string().transform(Number).default(1000).meta(pageLimit(1000, 1000)),
});

const maxEnded = 1000;
const endedLimit = { error: `a whole number from 1 to ${maxEnded}` };

const endedQuery = z.object({
  user: z.string().exactOptional().describe('Only sessions of this user.'),
  workspace: z.string().exactOptional().describe('Only sessions in this workspace.'),
  name: z.string().min(1, 'at least one character').exactOptional().describe('Only sessions with this name.'),
  id: z.string().min(1, 'at least one character').exactOptional().describe('Only sessions whose id begins with this.'),
  since: z.iso
    .datetime({ offset: true, error: 'a time such as 2026-11-18T09:00:00Z' })
    .exactOptional()
    .describe('Only sessions that ended at this time or later. Default: 30 days ago.'),
  after: z.string().exactOptional().describe('Value of "next" from the previous page.'),
  limit: z.coerce
    .number(endedLimit)
    .int(endedLimit)
    .min(1, endedLimit)
    .max(maxEnded, endedLimit)
    .default(100)
    .describe('Maximum number of sessions per page.'),
});

/** Lists of sessions. */
export const sessionListRoutes = {
  'GET /api/v1/sessions': defineRoute({
    role: 'viewer',
    summary: 'Lists the live sessions, oldest first',
    query: sessionsQuery,
    returns: 'A page of sessions',
    answer: 'sessionsPage',
    handle: listSessions,
  }),
  'GET /api/v1/sessions/ended': defineRoute({
    role: 'viewer',
    summary: 'Lists the sessions that ended in the last 30 days, newest first',
    description:
      'At most 10,000 sessions are listed for each day (UTC): the ones that ended last. The session of a removed user is not listed. To show a live session that is named "ended", use its id. Two requests are answered at once; others wait like searches of the journal, and more are refused with OVERLOADED.',
    query: endedQuery,
    returns: 'A page of ended sessions',
    answer: 'endedSessionsPage',
    handle: listEndedSessions,
  }),
};

/** Lists the oldest sessions first. `next` is the value of `after` for the next page. */
async function listSessions(gateway: Operator, { query, caller }: RouteRequest<{ query: typeof sessionsQuery }>) {
  const { ids, user, workspace, parent, include = [], ...page } = query;
  const filter = {
    ...(user === undefined ? {} : { userId: user }),
    ...(workspace === undefined ? {} : { workspaceId: workspace }),
    ...(parent === undefined ? {} : { parentId: parent }),
  };
  const { sessions, next } =
    ids === undefined
      ? await gateway.sessions.list(filter, page)
      : { sessions: await readSessions(gateway, ids, filter), next: null };
  const usages = include.includes('usage') ? await describeUsages(gateway, sessions) : undefined;
  const activity = include.includes('activity') ? (id: string) => gateway.running?.activity.get(id) ?? null : undefined;
  return {
    sessions: sessions.map((record, index) => ({
      ...showSession(sessionViewOf(record), caller),
      ...(activity === undefined ? {} : { activity: activity(record.id) }),
      ...usages?.[index],
    })),
    next,
  };
}

async function readSessions(
  { sessions }: Pick<Operator, 'sessions'>,
  ids: readonly string[],
  filter: Readonly<Partial<Pick<SessionRecord, 'userId' | 'workspaceId' | 'parentId'>>>,
): Promise<readonly SessionRecord[]> {
  const found = await Promise.all([...new Set(ids)].map(sessions.record));
  const records = found.filter((record) => record !== undefined);
  const matches = (record: SessionRecord) =>
    Object.entries(filter).every(([name, value]) => record[name as keyof typeof filter] === value);
  return records.filter(matches).sort((one, other) => one.createdAt - other.createdAt);
}

async function describeUsages({ sessions }: Pick<Operator, 'sessions'>, records: readonly SessionRecord[]) {
  const uses = await sessions.readUses(records);
  return records.map((record, index) => {
    const { children = 0, ...usage } = uses[index] ?? {};
    return {
      usage: 'calls' in usage ? usage : null,
      limits: describeLimits(sessions.limitsOf(record)),
      children,
    };
  });
}

/** Describes limits with null for what is not limited. */
export function describeLimits({ callsPerMinute, burst, concurrentCalls, totalCalls, totalBytes }: Limits) {
  return {
    callsPerMinute: callsPerMinute ?? null,
    burst: callsPerMinute === undefined ? null : (burst ?? callsPerMinute),
    concurrentCalls: concurrentCalls ?? null,
    totalCalls: totalCalls ?? null,
    totalBytes: totalBytes ?? null,
  };
}

async function listEndedSessions(
  gateway: Operator,
  { query, caller, signal }: RouteRequest<{ query: typeof endedQuery }>,
) {
  const { user: userId, workspace: workspaceId, since, ...rest } = query;
  const from = since === undefined ? undefined : Date.parse(since);
  const filter = { userId, workspaceId, since: from, signal, ...rest };
  const { sessions, next } = await gateway.endedSessions.listInTurn(filter, nameReader(caller));
  return {
    sessions: sessions.map(({ createdAt, endedAt, ...each }) => ({
      ...showSession(each, caller),
      createdAt: new Date(createdAt).toISOString(),
      endedAt: new Date(endedAt).toISOString(),
    })),
    next,
  };
}
