import { hrefOf } from '../frame/route.ts';
import { Badge, TrustBadge } from '../parts/badge.tsx';
import { formatBytes, formatCount, formatDuration, now } from '../parts/format.ts';
import { Meter } from '../parts/meter.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import type { Column } from '../parts/table.tsx';
import { Ago, Id, Swatch, Text } from '../parts/text.tsx';
import { listUsedLimits } from './limits.ts';
import { ageRecent, countCalls, type LiveSession } from './live-sessions.ts';

const maxName = 60;

export const sessionColumns: readonly Column<LiveSession>[] = [
  { label: 'Session', width: '23%', cell: (session) => <SessionName session={session} /> },
  { label: 'User', width: '9%', from: 'tablet', cell: ({ userId }) => <Text value={userId} max={maxName} /> },
  { label: 'Agent', width: '9%', from: 'desktop', cell: ({ agentId }) => <Optional value={agentId} /> },
  { label: 'Workspace', width: '10%', from: 'tablet', cell: ({ workspaceId }) => <Optional value={workspaceId} /> },
  { label: 'Trust', width: '7.5rem', from: 'tablet', cell: ({ trustLevel }) => <TrustBadge level={trustLevel} /> },
  { label: 'Age', width: '5rem', from: 'desktop', cell: ({ createdAt }) => <Age since={createdAt} /> },
  { label: 'Now', width: '17%', cell: ({ activity }) => <Now activity={activity} /> },
  { label: 'Last 5 minutes', width: '8.5rem', from: 'tablet', cell: ({ activity }) => <Recent activity={activity} /> },
  {
    label: 'Calls',
    width: '5rem',
    isNumber: true,
    from: 'tablet',
    cell: (session) => formatCount(countCalls(session)),
  },
  {
    label: 'Errors',
    width: '4.5rem',
    isNumber: true,
    cell: ({ activity }) => <Errors count={activity?.errors ?? 0} />,
  },
  { label: 'Limits', width: '6rem', from: 'desktop', cell: (session) => <Limits session={session} /> },
];

/** Names a session, with its colour, as a link to everything about it. */
export function SessionName({
  session,
}: {
  readonly session: Pick<LiveSession, 'id' | 'name' | 'task' | 'children' | 'parentId'>;
}) {
  const { id, name, task, children, parentId } = session;
  return (
    <span class="session-name">
      <Swatch of={id} />
      <a href={hrefOf(['sessions', id])} title={task?.slice(0, 300) ?? id}>
        {name === null ? <Id value={id} /> : <Text value={name.slice(0, maxName)} max={maxName} />}
      </a>
      {parentId !== null && <Badge>child</Badge>}
      {children > 0 && (
        <Badge tone="info">
          {children} {children === 1 ? 'child' : 'children'}
        </Badge>
      )}
    </span>
  );
}

function Optional({ value }: { readonly value: string | null }) {
  return value === null ? <span class="muted">none</span> : <Text value={value} max={maxName} />;
}

function Age({ since }: { readonly since: string }) {
  return <span class="nowrap">{formatDuration(now.value - Date.parse(since))}</span>;
}

function Now({ activity }: { readonly activity: LiveSession['activity'] }) {
  if (activity === null) return <span class="muted">no calls yet</span>;
  const { current, underWay, lastCallAt } = activity;
  if (current === null) {
    return (
      <span class="muted">
        idle, <Ago at={lastCallAt} />
      </span>
    );
  }
  return (
    <span class="session-now" title={`${underWay} under way`}>
      <span class="session-busy" aria-hidden="true" />
      <Text value={`${current.server} ${current.tool}`.slice(0, maxName)} max={maxName} />
      <span class="muted">{formatDuration(now.value - Date.parse(current.since))}</span>
      {underWay > 1 && <Badge>+{underWay - 1}</Badge>}
    </span>
  );
}

function Recent({ activity }: { readonly activity: LiveSession['activity'] }) {
  const recent = activity === null ? new Array<number>(30).fill(0) : ageRecent(activity, now.value);
  return <Sparkline values={recent} label="in the last 5 minutes" />;
}

function Errors({ count }: { readonly count: number }) {
  return count === 0 ? <span class="muted">0</span> : <Badge tone="bad">{formatCount(count)}</Badge>;
}

function Limits({ session }: { readonly session: LiveSession }) {
  const limits = listUsedLimits(session);
  if (limits.length === 0) return <span class="muted">none</span>;
  return (
    <span class="session-limits">
      {limits.map(({ name, label, used, max }) => (
        <Meter
          key={name}
          label={label}
          value={used}
          max={max}
          format={name === 'totalBytes' ? formatBytes : formatCount}
        />
      ))}
    </span>
  );
}
