import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, onlyWord, seconds, text, texts, UsageFault } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { facts, fromNow, howLong, print, table } from '../io/output.ts';

type Session = AnswerOf<'PATCH /api/v1/sessions/{id}'>;

type Details = AnswerOf<'GET /api/v1/sessions/{id}'>;

type Opened = AnswerOf<'POST /api/v1/sessions'>;

/** Members that only some answers have beside the session. */
type Besides = Partial<Pick<Details, 'usage' | 'sandbox'> & Pick<Opened, 'token'>>;

type Call = AnswerOf<'GET /api/v1/sessions/{id}/calls'>['calls'][number];

type ShownCall = Pick<Call, 'at' | 'server' | 'method' | 'name' | 'outcome' | 'ms'>;

export const sessionCreate: Command = {
  path: ['session', 'create'],
  help: 'open a session; prints its record and its token',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'where it works' },
    trust: { type: 'string', value: 'T', help: 'direct or sandboxed' },
    user: { type: 'string', value: 'U', help: 'for whom' },
    agent: { type: 'string', value: 'A', help: 'which agent' },
    name: { type: 'string', value: 'N', help: 'a name, unique per user' },
    ttl: { type: 'string', value: 'SECONDS', help: 'ends when idle for so long' },
    parent: { type: 'string', value: 'ID', help: 'a session that bounds it, and ends it by ending' },
    server: { type: 'string', value: 'S', help: 'may use only this server; repeatable', multiple: true },
    permission: { type: 'string', value: 'P', help: 'may do this, as "notes:write"; repeatable', multiple: true },
    meta: { type: 'string', value: 'K=V', help: 'keep this with it; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await controlRequest(invocation, 'POST /api/v1/sessions', {
      body: {
        workspaceId: text(invocation, 'workspace'),
        trustLevel: text(invocation, 'trust'),
        userId: text(invocation, 'user'),
        agentId: text(invocation, 'agent'),
        name: text(invocation, 'name'),
        ttlSeconds: seconds(invocation, 'ttl'),
        parentId: text(invocation, 'parent'),
        servers: texts(invocation, 'server'),
        permissions: texts(invocation, 'permission'),
        metadata: metadataOf(texts(invocation, 'meta')),
      },
    });
    print(invocation, view, () => showSession(view));
    return 0;
  },
};

type Page = AnswerOf<'GET /api/v1/sessions'>;

export const sessionList: Command = {
  path: ['session', 'list'],
  help: 'the live sessions',
  flags: { json: jsonFlag },
  async run(invocation) {
    const sessions: Page['sessions'][number][] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page: Page = await controlRequest(invocation, 'GET /api/v1/sessions', { query: { after } });
      sessions.push(...page.sessions);
      after = page.next;
    }
    const isLimited = sessions.some(({ servers }) => servers !== null);
    print(invocation, { sessions }, () =>
      sessions.length === 0
        ? 'No live sessions. Open one with "ambit session create".'
        : table(
            ['ID', 'NAME', 'USER', 'WORKSPACE', 'TRUST', 'SERVERS', 'IDLE', 'LEFT'],
            sessions.map((view) => [
              view.id.slice(0, 8),
              view.name ?? '-',
              view.userId,
              view.workspaceId ?? '-',
              view.trustLevel,
              isLimited ? (view.servers === null ? 'all' : String(view.servers.length)) : '',
              howLong(view.lastActiveAt),
              howLong(view.expiresAt),
            ]),
          ),
    );
    return 0;
  },
};

/** How many of its calls are shown beside it. */
const latest = 5;

export const sessionShow: Command = {
  path: ['session', 'show'],
  operands: 'ID',
  help: 'one session, by id, name or unique prefix',
  flags: { json: jsonFlag },
  async run(invocation) {
    const view = await controlRequest(invocation, 'GET /api/v1/sessions/{id}', { id: onlyWord(invocation, 'ID') });
    const forPeople = invocation.flags.json !== true;
    const page = { id: view.id, query: { limit: latest } };
    const calls = forPeople ? (await controlRequest(invocation, 'GET /api/v1/sessions/{id}/calls', page)).calls : [];
    print(invocation, view, () =>
      [showSession(view), ...(calls.length === 0 ? [] : ['', showCalls(calls)])].join('\n'),
    );
    return 0;
  },
};

export const sessionEnd: Command = {
  path: ['session', 'end'],
  operands: 'ID',
  help: 'end a session and everything that runs for it',
  flags: { json: jsonFlag },
  async run(invocation) {
    const view = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}', { id: onlyWord(invocation, 'ID') });
    print(invocation, view, () => `Session ${view.id.slice(0, 8)} has ended.`);
    return 0;
  },
};

function metadataOf(pairs: readonly string[] | undefined): Record<string, string> | undefined {
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const cut = pair.indexOf('=');
      if (cut < 1) throw new UsageFault('--meta takes KEY=VALUE');
      return [pair.slice(0, cut), pair.slice(cut + 1)];
    }),
  );
}

export function showCalls(calls: readonly ShownCall[]): string {
  return table(
    ['CALLED', 'SERVER', 'METHOD', 'NAME', 'OUTCOME', 'MS'],
    calls.map(({ at, server, method, name, outcome, ms }) => [
      fromNow(at),
      server,
      method,
      name ?? '-',
      outcome,
      ms.toFixed(1),
    ]),
    { precious: ['CALLED', 'NAME', 'OUTCOME'] },
  );
}

export function showSession(view: Session & Besides): string {
  const { usage } = view;
  return facts([
    ['id', view.id],
    ['name', view.name ?? '-'],
    ['user', view.userId],
    ['agent', view.agentId ?? '-'],
    ['workspace', view.workspaceId ?? '-'],
    ...(view.parentId === null ? [] : ([['parent', view.parentId]] as const)),
    ['trust', view.trustLevel],
    ['servers', view.servers === null ? 'all' : view.servers.join(', ') || 'none'],
    ['permissions', view.permissions.join(', ') || 'none'],
    ['created', formatInstant(view.createdAt)],
    ['last active', formatInstant(view.lastActiveAt)],
    ['expires', formatInstant(view.expiresAt)],
    ['ends', formatInstant(view.endsAt)],
    ...Object.entries(view.metadata).map(([key, value]) => [`meta ${key}`, metadataText(value)] as const),
    ...(usage === undefined ? [] : ([['calls', `${usage.calls}, ${usage.underWay} under way`]] as const)),
    ...(usage === undefined ? [] : ([['bytes', String(usage.bytes)]] as const)),
    ...sandboxFacts(view),
    ...(view.token === undefined ? [] : ([['token', view.token]] as const)),
  ]);
}

/** Which sandbox, and who keeps it within which limits. */
function sandboxFacts({ sandbox, trustLevel }: Session & Besides): (readonly [string, string])[] {
  if (sandbox === undefined || trustLevel === 'direct') return [];
  if (sandbox === null) return [['sandbox', 'not examined: no gateway is running']];
  const keepers = new Map<string, string[]>();
  for (const [limit, means] of Object.entries(sandbox.limits ?? {}))
    keepers.set(means, [...(keepers.get(means) ?? []), limit]);
  return [
    ['sandbox', sandbox.runner ?? sandbox.refusal ?? '-'],
    ...[...keepers].map(([means, limits]) => [`by ${means}`, limits.join(', ')] as const),
  ];
}

function formatInstant(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC, ${fromNow(iso)}`;
}

function metadataText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
