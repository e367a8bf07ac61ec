import { hrefOf } from '../frame/route.ts';
import { Badge, TrustBadge } from '../parts/badge.tsx';
import { formatAge, formatBytes, formatCount, formatSince, now, plural } from '../parts/format.ts';
import { Meter } from '../parts/meter.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import type { Column } from '../parts/table.tsx';
import { Id, makeVisible, Swatch, Text } from '../parts/text.tsx';
import { findNearestLimit, listUsedLimits } from './limits.ts';
import { ageRecent, countCalls, type LiveSession } from './live-sessions.ts';
import './sessions.css';

const maxName = 60;

/** Cuts a text for a cell, which has no room for a button that shows the rest. */
export function cutText(text: string): string {
  return text.length > maxName ? `${text.slice(0, maxName - 1)}…` : text;
}

export const sessionColumns: readonly Column<LiveSession>[] = [
  {
    label: 'Session, agent',
    width: '42%',
    phoneWidth: '56%',
    cell: (session) => <SessionAndAgent session={session} />,
  },
  { label: 'User, workspace', width: '28%', from: 'tablet', cell: (session) => <UserAndWorkspace of={session} /> },
  { label: 'Trust', width: '7.25rem', from: 'tablet', cell: ({ trustLevel }) => <TrustBadge level={trustLevel} /> },
  { label: 'Age', width: '4.25rem', from: 'desktop', cell: ({ createdAt }) => <Age since={createdAt} /> },
  { label: 'Now', width: '30%', phoneWidth: '36%', cell: ({ activity }) => <Now activity={activity} /> },
  { label: 'Last 5 minutes', width: '7rem', from: 'desktop', cell: ({ activity }) => <Recent activity={activity} /> },
  {
    label: 'Calls',
    width: '4rem',
    isNumber: true,
    from: 'tablet',
    cell: (session) => formatCount(countCalls(session)),
  },
  {
    label: 'Errors',
    width: '4rem',
    isNumber: true,
    cell: ({ activity }) => <Errors count={activity?.errors ?? 0} />,
  },
  { label: 'Limits', width: '9.5rem', from: 'desktop', cell: (session) => <Limits session={session} /> },
];

/** Deeper families are not indented further. */
const maxDepth = 4;

function SessionAndAgent({ session }: { readonly session: LiveSession }) {
  const { id, agentId, children, parentId, trustLevel, depth = 0 } = session;
  const agent = agentId === null ? '' : agentId;
  const hasMore = parentId !== null || children > 0 || agent !== '';
  return (
    <span class="session-pair" style={{ '--depth': String(Math.min(depth, maxDepth)) }}>
      <SessionName session={session} isBelow={depth > 0} />
      <span class={hasMore ? 'session-second' : 'session-second to-phone'} title={makeVisible(agent.slice(0, 300))}>
        {/* Phones have no column for the trust level, and room only for the one that needs care. */}
        {trustLevel === 'direct' && <span class="to-phone">direct{hasMore && ' · '}</span>}
        {parentId !== null && 'child'}
        {parentId !== null && (children > 0 || agent !== '') && ' · '}
        {children > 0 && <a href={hrefOf(['sessions'], { family: id })}>{plural(children, 'child', 'children')}</a>}
        {children > 0 && agent !== '' && ' · '}
        {agent !== '' && <Text value={cutText(agent)} />}
      </span>
    </span>
  );
}

function UserAndWorkspace({ of: { userId, workspaceId } }: { readonly of: LiveSession }) {
  return (
    <span class="session-pair">
      <Text value={cutText(userId)} />
      <SecondLine value={workspaceId ?? 'no workspace'} />
    </span>
  );
}

function SecondLine({ value }: { readonly value: string }) {
  return (
    <span class="session-second" title={makeVisible(value.slice(0, 300))}>
      <Text value={cutText(value)} />
    </span>
  );
}

/** Names a session, with its colour, as a link to everything about it. */
export function SessionName({
  session,
  isBelow,
}: {
  readonly session: Pick<LiveSession, 'id' | 'name' | 'task'>;
  /** Whether its parent stands above it. */
  readonly isBelow?: boolean;
}) {
  const { id, name, task } = session;
  return (
    <span class="session-name">
      {isBelow === true && (
        <span class="session-below" aria-hidden="true">
          └
        </span>
      )}
      <Swatch of={id} />
      <a href={hrefOf(['sessions', id])} title={makeVisible(task?.slice(0, 300) ?? id)}>
        {name === null ? <Id value={id} /> : <Text value={cutText(name)} />}
      </a>
    </span>
  );
}

function Age({ since }: { readonly since: string }) {
  return (
    <span class="nowrap" title={formatSince(since)}>
      {formatAge(since)}
    </span>
  );
}

function Now({ activity }: { readonly activity: LiveSession['activity'] }) {
  if (activity === null) return <span class="muted">no calls yet</span>;
  const { current, underWay, lastCallAt } = activity;
  if (current === null)
    return <span class="muted">{lastCallAt === null ? 'no calls yet' : `idle for ${formatAge(lastCallAt)}`}</span>;
  return (
    <span class="session-now" title={`${underWay} under way`}>
      <span class="session-busy" aria-hidden="true" />
      <Text value={cutText(nameTool(current))} />
      <span class="muted">{formatSince(current.since)}</span>
      {underWay > 1 && <Badge>+{underWay - 1}</Badge>}
    </span>
  );
}

function nameTool({ server, tool }: { readonly server: string; readonly tool: string }): string {
  return server === 'ambit' ? tool : `${server} ${tool}`;
}

function Recent({ activity }: { readonly activity: LiveSession['activity'] }) {
  const recent = activity === null ? new Array<number>(30).fill(0) : ageRecent(activity, now.value);
  return <Sparkline values={recent} label="in the last 5 minutes" />;
}

function Errors({ count }: { readonly count: number }) {
  return count === 0 ? <span class="muted">0</span> : <Badge tone="bad">{formatCount(count)}</Badge>;
}

/** Shows the limit that is nearest to its end. */
function Limits({ session }: { readonly session: LiveSession }) {
  // Events about new sessions do not tell their limits.
  if (session.limits === undefined) return <span class="muted">…</span>;
  const nearest = findNearestLimit(session);
  if (nearest === undefined) return <span class="muted">none</span>;
  const { name, label, text, used, max } = nearest;
  const title = listUsedLimits(session)
    .map((limit) => `${limit.label}: ${limit.text}`)
    .join('\n');
  return (
    <span class="session-limit" title={title}>
      <span>{text}</span>
      <Meter
        label={label}
        value={used}
        max={max}
        format={name === 'totalBytes' ? formatBytes : formatCount}
        title={title}
      />
    </span>
  );
}
