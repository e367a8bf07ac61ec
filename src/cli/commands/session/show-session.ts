import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { facts } from '../../io/output.ts';

type Session = AnswerOf<'PATCH /api/v1/sessions/{id}'>;
type Details = AnswerOf<'GET /api/v1/sessions/{id}'>;
type Opened = AnswerOf<'POST /api/v1/sessions'>;

/** Members that only some answers have beside the session. */
type Besides = Partial<Pick<Details, 'usage' | 'sandbox'> & Pick<Opened, 'token'>>;

export function showOne(view: Session & Besides): string {
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
    ['created', when(view.createdAt)],
    ['last active', when(view.lastActiveAt)],
    ['expires', when(view.expiresAt)],
    ['ends', when(view.endsAt)],
    ...Object.entries(view.metadata).map(([key, value]) => [`meta ${key}`, shown(value)] as const),
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

/** How long from now, in the unit a person would use. */
export function fromNow(iso: string, now = Date.now()): string {
  return Date.parse(iso) < now ? `${howLong(iso, now)} ago` : `in ${howLong(iso, now)}`;
}

export function howLong(iso: string, now = Date.now()): string {
  const seconds = Math.abs(Math.round((Date.parse(iso) - now) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)}h` : `${Math.round(seconds / 86_400)}d`;
}

function when(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC, ${fromNow(iso)}`;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
