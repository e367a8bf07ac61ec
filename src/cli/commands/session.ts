import type { AnswerOf } from '../../entrances/control/routes.ts';
import {
  type Command,
  type Invocation,
  jsonFlag,
  readCountFlag,
  readFlag,
  readListFlag,
  readSecondsFlag,
  readTimeFlag,
  requirePositional,
  trustFlag,
  UsageError,
} from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, relativeTime, renderDuration, renderPairs, renderTable } from '../io/output.ts';

type SessionAnswer = AnswerOf<'PATCH /api/v1/sessions/{id}'>;
type SessionDetails = AnswerOf<'GET /api/v1/sessions/{id}'>;
type OpenedAnswer = AnswerOf<'POST /api/v1/sessions'>;

/** Members that only some answers have. */
type OptionalMembers = Partial<Pick<SessionDetails, 'usage' | 'sandbox'> & Pick<OpenedAnswer, 'token'>>;
type Call = AnswerOf<'GET /api/v1/sessions/{id}/calls'>['calls'][number];
type ShownCall = Pick<Call, 'at' | 'server' | 'method' | 'name' | 'outcome' | 'ms'>;

export const sessionCreate: Command = {
  help: 'Create a session and print it with its token',
  flags: {
    workspace: { type: 'string', value: 'NAME', help: 'Workspace of the session' },
    trust: trustFlag,
    user: { type: 'string', value: 'NAME', help: 'User of the session; default: local' },
    agent: { type: 'string', value: 'NAME', help: 'Agent of the session' },
    name: { type: 'string', value: 'NAME', help: 'Name of the session; unique per user' },
    ttl: { type: 'string', value: 'SECONDS', help: 'Time to live; the session ends when idle this long' },
    parent: { type: 'string', value: 'ID', help: 'Parent session; the new one gets no more rights and ends with it' },
    task: { type: 'string', value: 'TEXT', help: 'The work that the session is for' },
    server: { type: 'string', value: 'NAME', help: 'Allow only this server', multiple: true },
    permission: { type: 'string', value: 'PERMISSION', help: 'Grant a permission such as notes:write', multiple: true },
    quota: {
      type: 'string',
      value: 'NAME=NUMBER',
      help: 'Set a limit such as totalCalls=100',
      multiple: true,
    },
    meta: { type: 'string', value: 'KEY=VALUE', help: 'Metadata to store with the session', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await controlRequest(invocation, 'POST /api/v1/sessions', {
      body: {
        workspaceId: readFlag(invocation, 'workspace'),
        trustLevel: readFlag(invocation, 'trust'),
        userId: readFlag(invocation, 'user'),
        agentId: readFlag(invocation, 'agent'),
        name: readFlag(invocation, 'name'),
        ttlSeconds: readSecondsFlag(invocation, 'ttl'),
        parentId: readFlag(invocation, 'parent'),
        task: readFlag(invocation, 'task'),
        servers: readListFlag(invocation, 'server'),
        permissions: readListFlag(invocation, 'permission'),
        quotas: readQuotas(readListFlag(invocation, 'quota')),
        metadata: readPairs('meta', 'KEY=VALUE', readListFlag(invocation, 'meta')),
      },
    });
    printData(invocation, view, () => renderSession(view));
  },
};

type Page = AnswerOf<'GET /api/v1/sessions'>;
export type ListedSession = Page['sessions'][number];

/** Reads all pages of the live sessions, oldest first. */
export async function readLiveSessions(
  invocation: Invocation,
  filter: Partial<Readonly<Record<'include' | 'user' | 'workspace', string | undefined>>> = {},
): Promise<ListedSession[]> {
  const sessions: ListedSession[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page: Page = await controlRequest(invocation, 'GET /api/v1/sessions', { query: { ...filter, after } });
    sessions.push(...page.sessions);
    after = page.next;
  }
  return sessions;
}

const defaultEnded = 100;
const maxEnded = 1_000_000;

export const sessionList: Command = {
  help: 'List live sessions, or those that have ended',
  flags: {
    activity: { type: 'boolean', help: 'Show what each session does, and its use, limits and children' },
    ended: { type: 'boolean', help: 'List the sessions that ended in the last 30 days, newest first' },
    since: {
      type: 'string',
      value: 'TIME',
      help: 'With --ended: only later ends; a time ago such as 1h or 2d, or a date or time',
    },
    user: { type: 'string', value: 'NAME', help: 'Only sessions of this user' },
    workspace: { type: 'string', value: 'NAME', help: 'Only sessions in this workspace' },
    limit: { type: 'string', value: 'N', help: `With --ended: at most N sessions; default: ${defaultEnded}` },
    json: jsonFlag,
  },
  async run(invocation) {
    if (invocation.flags['ended'] === true) return listEnded(invocation);
    const misplaced = ['since', 'limit'].find((name) => invocation.flags[name] !== undefined);
    if (misplaced !== undefined) throw new UsageError(`--${misplaced} needs --ended`);
    const showsActivity = invocation.flags['activity'] === true;
    const filter = { user: readFlag(invocation, 'user'), workspace: readFlag(invocation, 'workspace') };
    const include = showsActivity ? 'activity,usage' : undefined;
    const sessions = await readLiveSessions(invocation, { ...filter, include });
    printData(invocation, { sessions }, () =>
      sessions.length === 0
        ? describeNoSession(filter)
        : showsActivity
          ? renderActivity(sessions)
          : renderSessions(sessions),
    );
    return undefined;
  },
};

function describeNoSession({ user, workspace }: Record<'user' | 'workspace', string | undefined>): string {
  return user === undefined && workspace === undefined
    ? 'No live sessions. Create one with "ambit session create".'
    : 'No live session matches.';
}

function renderSessions(sessions: readonly ListedSession[]): string {
  const isLimited = sessions.some(({ servers }) => servers !== null);
  return renderTable(
    ['ID', 'NAME', 'USER', 'WORKSPACE', 'TRUST', 'SERVERS', 'IDLE', 'LEFT'],
    sessions.map((view) => [
      view.id.slice(0, 8),
      view.name ?? '-',
      view.userId,
      view.workspaceId ?? '-',
      view.trustLevel,
      isLimited ? (view.servers === null ? 'all' : String(view.servers.length)) : '',
      renderDuration(view.lastActiveAt),
      renderDuration(view.expiresAt),
    ]),
    { states: ['TRUST'] },
  );
}

function renderActivity(sessions: readonly ListedSession[]): string {
  return renderTable(
    ['ID', 'NAME', 'USER', 'CALLS', 'ERRORS', 'CHILDREN', 'LAST CALL', 'NOW'],
    sessions.map(({ id, name, userId, activity, usage, children = 0 }) => [
      id.slice(0, 8),
      name ?? '-',
      userId,
      String(usage?.calls ?? 0),
      String(activity?.errors ?? 0),
      String(children),
      activity?.lastCallAt == null ? '-' : renderDuration(activity.lastCallAt),
      activity?.current == null ? '-' : `${activity.current.server} ${activity.current.tool}`,
    ]),
  );
}

type EndedPage = AnswerOf<'GET /api/v1/sessions/ended'>;

async function listEnded(invocation: Invocation): Promise<undefined> {
  const limit = readCountFlag(invocation, 'limit', { max: maxEnded }) ?? defaultEnded;
  const filter = {
    since: readTimeFlag(invocation, 'since'),
    user: readFlag(invocation, 'user'),
    workspace: readFlag(invocation, 'workspace'),
  };
  const sessions: EndedPage['sessions'][number][] = [];
  for (let after: string | null | undefined; after !== null && sessions.length < limit; ) {
    const query = { ...filter, after, limit: Math.min(1000, limit - sessions.length) };
    const page: EndedPage = await controlRequest(invocation, 'GET /api/v1/sessions/ended', { query });
    sessions.push(...page.sessions);
    after = page.next;
  }
  printData(invocation, { sessions }, () =>
    sessions.length === 0 ? 'No session has ended in this time.' : renderEnded(sessions),
  );
  return undefined;
}

function renderEnded(sessions: EndedPage['sessions']): string {
  return renderTable(
    ['ID', 'NAME', 'USER', 'WORKSPACE', 'TRUST', 'LIVED', 'ENDED', 'REASON'],
    sessions.map((view) => [
      view.id.slice(0, 8),
      view.name ?? '-',
      view.userId,
      view.workspaceId ?? '-',
      view.trustLevel,
      renderDuration(view.createdAt, Date.parse(view.endedAt)),
      relativeTime(view.endedAt),
      view.reason,
    ]),
    { states: ['TRUST'] },
  );
}

const maxShownCalls = 5;

export const sessionShow: Command = {
  operands: 'ID',
  help: 'Show a session, by ID, name or unique prefix of its ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const view = await controlRequest(invocation, 'GET /api/v1/sessions/{id}', { id });
    const isForPeople = invocation.flags.json !== true;
    const page = { id: view.id, query: { limit: maxShownCalls } };
    const calls = isForPeople ? (await controlRequest(invocation, 'GET /api/v1/sessions/{id}/calls', page)).calls : [];
    printData(invocation, view, () =>
      [renderSession(view), ...(calls.length === 0 ? [] : ['', renderCalls(calls)])].join('\n'),
    );
  },
};

export const sessionEnd: Command = {
  operands: 'ID',
  help: 'End a session and everything that runs for it',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const view = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}', { id });
    printData(invocation, view, () => `Session ${view.id.slice(0, 8)} has ended.`);
  },
};

function readPairs(
  flag: string,
  form: string,
  pairs: readonly string[] | undefined,
): Record<string, string> | undefined {
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const cut = pair.indexOf('=');
      if (cut < 1) throw new UsageError(`--${flag} takes ${form}`);
      return [pair.slice(0, cut), pair.slice(cut + 1)];
    }),
  );
}

/** Reads limits. The gateway knows their names. */
function readQuotas(pairs: readonly string[] | undefined): Record<string, number> | undefined {
  const given = readPairs('quota', 'NAME=NUMBER', pairs);
  return given && Object.fromEntries(Object.entries(given).map(([name, value]) => [name, Number(value || Number.NaN)]));
}

export function renderCalls(calls: readonly ShownCall[]): string {
  return renderTable(
    ['CALLED', 'SERVER', 'METHOD', 'NAME', 'OUTCOME', 'MS'],
    calls.map(({ at, server, method, name, outcome, ms }) => [
      relativeTime(at),
      server,
      method,
      name ?? '-',
      outcome,
      ms?.toFixed(1) ?? '-',
    ]),
    { keepWidth: ['CALLED', 'NAME', 'OUTCOME'] },
  );
}

export function renderSession(view: SessionAnswer & OptionalMembers): string {
  const { usage } = view;
  return renderPairs([
    ['id', view.id],
    ['name', view.name ?? '-'],
    ['user', view.userId],
    ['agent', view.agentId ?? '-'],
    ['workspace', view.workspaceId ?? '-'],
    ...(view.parentId === null ? [] : ([['parent', view.parentId]] as const)),
    ...(view.task === null ? [] : ([['task', view.task]] as const)),
    ['trust', view.trustLevel],
    ['servers', view.servers === null ? 'all' : view.servers.join(', ') || 'none'],
    ['permissions', view.permissions.join(', ') || 'none'],
    ['created', formatInstant(view.createdAt)],
    ['last active', formatInstant(view.lastActiveAt)],
    ['expires', formatInstant(view.expiresAt)],
    ['ends by', formatInstant(view.endsAt)],
    ...Object.entries(view.metadata).map(([key, value]) => [`meta ${key}`, renderMetadata(value)] as const),
    ...(usage === undefined ? [] : ([['calls', `${usage.calls} (${usage.underWay} in progress)`]] as const)),
    ...(usage === undefined ? [] : ([['bytes', String(usage.bytes)]] as const)),
    ...sandboxRows(view),
    ...(view.token === undefined ? [] : ([['token', view.token]] as const)),
  ]);
}

/** The sandbox, and what enforces which of its limits. */
function sandboxRows({ sandbox, trustLevel }: SessionAnswer & OptionalMembers): (readonly [string, string])[] {
  if (sandbox === undefined || trustLevel === 'direct') return [];
  if (sandbox === null) return [['sandbox', 'unknown: no gateway is running']];
  const keepers = new Map<string, string[]>();
  for (const [limit, means] of Object.entries(sandbox.limits ?? {}))
    keepers.set(means, [...(keepers.get(means) ?? []), limit]);
  return [
    ['sandbox', sandbox.runner ?? sandbox.refusal ?? '-'],
    ...[...keepers].map(([means, limits], i) => [i === 0 ? 'limits' : '', `${limits.join(', ')} (${means})`] as const),
  ];
}

function formatInstant(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC, ${relativeTime(iso)}`;
}

function renderMetadata(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export const sessionRestrict: Command = {
  operands: 'ID',
  help: 'Reduce the rights of a session; this cannot be undone',
  flags: {
    trust: { ...trustFlag, help: 'Lower trust level: sandboxed' },
    ttl: { type: 'string', value: 'SECONDS', help: 'Shorter time to live; the session ends when idle this long' },
    server: { type: 'string', value: 'NAME', help: 'Keep only this server', multiple: true },
    permission: { type: 'string', value: 'PERMISSION', help: 'Keep only this permission', multiple: true },
    'no-permissions': { type: 'boolean', help: 'Remove all permissions' },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await controlRequest(invocation, 'PATCH /api/v1/sessions/{id}', {
      id: requirePositional(invocation, 'ID'),
      body: {
        trustLevel: readFlag(invocation, 'trust'),
        ttlSeconds: readSecondsFlag(invocation, 'ttl'),
        servers: readListFlag(invocation, 'server'),
        permissions: invocation.flags['no-permissions'] === true ? [] : readListFlag(invocation, 'permission'),
      },
    });
    printData(invocation, view, () => renderSession(view));
  },
};
