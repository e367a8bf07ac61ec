import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { onEvent } from '../api/events.ts';
import { type AnswerOf, pathOf, RequestError } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, route } from '../frame/route.ts';
import { Badge, StateBadge, TrustBadge } from '../parts/badge.tsx';
import { Card, Facts, View } from '../parts/card.tsx';
import { formatCount, formatDuration, formatInstant, formatMs, formatTime, plural } from '../parts/format.ts';
import { Answer, Empty } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { Ago, makeVisible, Swatch, Text, Until } from '../parts/text.tsx';
import { SessionActions, type SessionActionsProps } from './actions/session-actions.tsx';
import { SessionFolder } from './folder.tsx';
import { ContextCards } from './side/context-cards.tsx';
import { ChildrenCard, Parent } from './side/family.tsx';
import { LimitsCard } from './side/limits-card.tsx';
import { MessagesCard } from './side/messages-card.tsx';
import { PoliciesCard } from './side/policies-card.tsx';
import { ProcessesCard } from './side/processes-card.tsx';
import { StateCard } from './side/state-card.tsx';
import { Timeline } from './timeline/timeline.tsx';
import './session.css';

export type SessionDetails = AnswerOf<'GET /api/v1/sessions/{id}'>;
export type EndedDetails = AnswerOf<'GET /api/v1/sessions/ended'>['sessions'][number];

const refreshMs = 5000;

interface ActivityChanges {
  readonly sessions: readonly (NonNullable<SessionDetails['activity']> & { readonly id: string })[];
}

/** A part of the view with data of its own, which it reads again each time that the session has been read. */
export interface SessionPartProps {
  readonly id: string;
  readonly after: SessionDetails;
}

/** Everything about one session, live or ended. */
export function SessionView() {
  const [, id = ''] = route.value.path;
  /** The time at which this console heard of the end. The record of the session may follow a little later. */
  const overAt = useSignal<string | undefined>(undefined);
  const ended = useRequest('GET /api/v1/sessions/ended', { query: { id } });
  // Ids of others may begin with this one.
  const record = ended.answer.value?.sessions.find((each) => each.id === id);
  const isLive = ended.answer.value !== undefined && record === undefined && overAt.value === undefined;
  /** While this page ends the session, it is not read: a browser reports the answer 404 as an error of the page. */
  const isEnding = useSignal(false);
  const everyMs = isEnding.value ? undefined : refreshMs;
  const session = useRequest('GET /api/v1/sessions/{id}', { id }, { everyMs, when: isLive });
  const failure = session.error.value;
  const isUnknown = failure instanceof RequestError && failure.status === 404;
  const last = session.answer.value;
  const isGone = isUnknown && last !== undefined;
  const showEnd = () => {
    overAt.value ??= new Date().toISOString();
    return ended.reload();
  };
  useEffect(
    () =>
      onEvent((type, data) => {
        const about = (data as { session?: { id?: string } } | undefined)?.session?.id;
        if (type === 'resync' || (about === id && type === 'restricted')) {
          if (!isEnding.peek()) void session.reload();
        } else if (about === id && type !== 'created') void showEnd();
      }),
    [id, session.reload],
  );
  useEffect(() => {
    if (isGone) void showEnd();
  }, [isGone]);
  if (record !== undefined || overAt.value !== undefined || isGone) {
    return <EndedSession record={record ?? last} endedAt={record?.endedAt ?? overAt.value} reason={record?.reason} />;
  }
  if (isUnknown) return <UnknownSession />;
  return (
    <Answer of={ended}>
      {() => (
        <Answer of={session}>
          {(details) => <LiveSession details={details} isEnding={isEnding} onChange={session.reload} onEnd={showEnd} />}
        </Answer>
      )}
    </Answer>
  );
}

function LiveSession({ details, isEnding, onChange, onEnd }: SessionActionsProps) {
  const { id, trustLevel, expiresAt } = details;
  const activity = useActivity(details);
  return (
    <View
      title={titleOf(details)}
      aside={
        <>
          <Swatch of={id} />
          <TrustBadge level={trustLevel} />
          <StateBadge state="live" />
          {activity !== null && activity.underWay > 0 && <Badge tone="info">{describeRunning(activity)}</Badge>}
          <span>
            expires <Until at={expiresAt} /> if it stays idle
          </span>
        </>
      }
      actions={<SessionActions details={details} isEnding={isEnding} onChange={onChange} onEnd={onEnd} />}
    >
      <SessionFacts session={details} isLive />
      <div class="session-columns">
        <div class="session-main">
          <Timeline
            id={id}
            since={details.createdAt}
            until={undefined}
            activity={activity}
            after={activity ?? details}
          />
          <SessionFolder
            id={id}
            name={details.name ?? id}
            workspaceId={details.workspaceId}
            isLive
            after={details.usage?.calls}
          />
        </div>
        <div class="session-side">
          <LimitsCard details={details} />
          <ProcessesCard id={id} after={details} />
          <ChildrenCard id={id} count={details.children} />
          <ContextCards id={id} after={details} />
          <PoliciesCard id={id} after={details} />
          <MessagesCard id={id} after={details} />
          <StateCard id={id} after={details} />
        </div>
      </div>
      <SameData
        command={`ambit session show ${quoteWord(id)} --json`}
        path={`/api/v1/sessions/${encodeURIComponent(id)}`}
        more={[
          {
            command: `ambit session inspect ${quoteWord(id)} --json`,
            path: `/api/v1/sessions/${encodeURIComponent(id)}/context`,
          },
          {
            command: `ambit process list --session ${quoteWord(id)} --json`,
            path: pathOf('GET /api/v1/processes', { query: { session: id } }),
          },
          {
            command: `ambit audit search --session ${quoteWord(id)} --json`,
            path: pathOf('GET /api/v1/journal', { query: { session: id } }),
          },
        ]}
      />
    </View>
  );
}

function describeRunning({ current, underWay }: NonNullable<SessionDetails['activity']>): string {
  if (underWay !== 1 || current === null) return `${plural(underWay, 'call')} under way`;
  return `${makeVisible(current.tool.slice(0, 60))} is under way`;
}

/** Returns what the session does now, as the event stream or the latest answer says it. */
function useActivity(details: SessionDetails): SessionDetails['activity'] {
  const latest = useSignal(details.activity);
  useEffect(() => {
    latest.value = details.activity;
  }, [details]);
  useEffect(
    () =>
      onEvent((type, data) => {
        if (type !== 'activity') return;
        const changed = (data as ActivityChanges).sessions;
        latest.value = changed.find(({ id }) => id === details.id) ?? latest.peek();
      }),
    [details.id],
  );
  return latest.value;
}

interface EndedSessionProps {
  /** Undefined for a moment after the end. */
  readonly record: EndedDetails | SessionDetails | undefined;
  readonly endedAt: string | undefined;
  readonly reason: string | undefined;
}

/** A session that has ended: its timeline comes from the journal, and its folder may have been kept. */
function EndedSession({ record, endedAt, reason = 'ended' }: EndedSessionProps) {
  if (record === undefined) return <p class="loading muted">Loading…</p>;
  const { id, name, trustLevel, createdAt, workspaceId } = record;
  return (
    <View
      title={titleOf(record)}
      aside={
        <>
          <Swatch of={id} />
          <TrustBadge level={trustLevel} />
          <StateBadge state={reason} />
          {endedAt !== undefined && <Ago at={endedAt} />}
        </>
      }
    >
      <SessionFacts session={record} isLive={false} />
      <Totals id={id} since={createdAt} until={endedAt} />
      <Timeline id={id} since={createdAt} until={endedAt ?? new Date().toISOString()} />
      <SessionFolder id={id} name={name ?? id} workspaceId={workspaceId} isLive={false} />
      <SameData
        command={`ambit audit search --session ${quoteWord(id)} --json`}
        path={`/api/v1/journal?session=${encodeURIComponent(id)}`}
      />
    </View>
  );
}

interface TotalsProps {
  readonly id: string;
  readonly since: string;
  readonly until: string | undefined;
}

/** What an ended session has done in all, as the journal counts it. */
function Totals({ id, since, until }: TotalsProps) {
  const stats = useRequest('GET /api/v1/stats', { query: { session: id, since } }, { after: until });
  const totals = stats.answer.value?.totals;
  const end = until ?? new Date().toISOString();
  const numbers: readonly (readonly [string, string])[] =
    totals === undefined
      ? []
      : [
          ['Calls', formatCount(totals.calls)],
          ['Errors, refusals included', formatCount(totals.errors)],
          ['Refusals', formatCount(totals.refusals)],
          ['Median duration', totals.p50 === null ? 'none' : formatMs(totals.p50)],
        ];
  return (
    <Card title="In all">
      <Facts
        rows={[
          ['Opened', <time title={formatInstant(since)}>{formatTime(since)}</time>],
          ['Ended', <time title={formatInstant(end)}>{formatTime(end)}</time>],
          ['Lived', formatDuration(Date.parse(end) - Date.parse(since))],
          ...numbers,
        ]}
      />
    </Card>
  );
}

function UnknownSession() {
  return (
    <View title="Unknown session">
      <Empty title="There is no such session, and none that ended in the last 30 days.">
        <a href={hrefOf(['sessions'])}>Show the sessions</a>
      </Empty>
    </View>
  );
}

function titleOf({ name, id }: { readonly name: string | null; readonly id: string }): string {
  return name === null ? `Session ${id.slice(0, 8)}` : makeVisible(name.slice(0, 100));
}

type DescribedSession = Pick<
  SessionDetails,
  'id' | 'userId' | 'agentId' | 'workspaceId' | 'parentId' | 'task' | 'createdAt'
>;

function SessionFacts({ session, isLive }: { readonly session: DescribedSession; readonly isLive: boolean }) {
  const { id, userId, agentId, workspaceId, parentId, task, createdAt } = session;
  return (
    <div class="session-facts">
      {task !== null && (
        <p>
          <Text value={task} />
        </p>
      )}
      <ul>
        <li>
          <span class="muted">User</span>{' '}
          <a href={hrefOf(['sessions'], { user: userId })}>
            <Text value={userId} />
          </a>
        </li>
        {agentId !== null && (
          <li>
            <span class="muted">Agent</span> <Text value={agentId} />
          </li>
        )}
        <li>
          <span class="muted">Workspace</span>{' '}
          {workspaceId === null ? (
            'none'
          ) : (
            <a href={hrefOf(['sessions'], { workspace: workspaceId })}>
              <Text value={workspaceId} />
            </a>
          )}
        </li>
        {parentId !== null && <Parent id={parentId} isLive={isLive} />}
        <li>
          <span class="muted">Opened</span> <Ago at={createdAt} />
        </li>
        <li>
          <span class="muted">Id</span> <code class="session-id">{id}</code>
        </li>
      </ul>
    </div>
  );
}
