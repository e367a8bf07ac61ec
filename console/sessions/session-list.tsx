import { useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { pathOf } from '../api/request.ts';
import { hrefOf, readQuery, route } from '../frame/route.ts';
import { View } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { formatCount, plural } from '../parts/format.ts';
import { Empty, ErrorNotice, Notice } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { WindowedTable } from '../parts/table.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { Text } from '../parts/text.tsx';
import { type EndedCount, EndedSessions } from './ended-sessions.tsx';
import { chooseSessions, readSessionFilter, sortings } from './filter-sessions.ts';
import { liveError, liveSessions, reloadSessions } from './live-sessions.ts';
import { sessionColumns } from './session-columns.tsx';

/** All sessions: the live ones, as they work, and those that ended in the last days. */
export function SessionList() {
  const state = readQuery('state') === 'ended' ? 'ended' : 'live';
  const kept = { text: readQuery('text'), user: readQuery('user'), workspace: readQuery('workspace') };
  const ended = useSignal<EndedCount | undefined>(undefined);
  const live = liveSessions.value?.length;
  const count =
    state === 'ended' ? writeEndedCount(ended.value) : live === undefined ? '' : plural(live, 'live session');
  return (
    <View title="Sessions" aside={count === '' ? undefined : <span>{count}</span>}>
      <Tabs
        label="Sessions"
        current={state}
        tabs={[
          { name: 'live', label: 'Live', href: hrefOf(['sessions'], kept) },
          { name: 'ended', label: 'Ended', href: hrefOf(['sessions'], { state: 'ended', ...kept }) },
        ]}
      />
      {state === 'live' ? <LiveSessions /> : <EndedSessions count={ended} />}
    </View>
  );
}

/** Counts the sessions that are loaded: the gateway tells only whether there are more. */
function writeEndedCount(count: EndedCount | undefined): string {
  if (count === undefined) return '';
  return count.hasMore ? `${formatCount(count.loaded)}+ ended sessions` : plural(count.loaded, 'ended session');
}

/** Says that the list holds one session and its descendants only. */
function Family({ id }: { readonly id: string }) {
  const name = liveSessions.value?.find((session) => session.id === id)?.name ?? id.slice(0, 8);
  return (
    <Notice>
      <p>
        Only <Text value={name} max={60} /> and the sessions below it.{' '}
        <a href={hrefOf(['sessions'], { ...Object.fromEntries(route.value.query), family: undefined })}>
          Show all families
        </a>
      </p>
    </Notice>
  );
}

function LiveSessions() {
  useEffect(() => {
    if (liveSessions.peek() === undefined) void reloadSessions();
  }, []);
  const filter = readSessionFilter();
  const key = JSON.stringify(filter);
  const shown = useComputed(() => chooseSessions(liveSessions.value ?? [], readSessionFilter()));
  const all = liveSessions.value;
  const rows = shown.value;
  const { user, workspace, text, trust, show } = filter;
  const hasOwnFilters = [text, trust, show].some((value) => value !== '');
  return (
    <>
      <Filters>
        <TextFilter name="text" label="Search" placeholder="Name, agent…" />
        <TextFilter name="user" label="User" />
        <TextFilter name="workspace" label="Workspace" />
        <ChoiceFilter
          name="trust"
          label="Trust level"
          options={[
            ['', 'All'],
            ['direct', 'Direct'],
            ['sandboxed', 'Sandboxed'],
          ]}
        />
        <ChoiceFilter
          name="show"
          label="Show"
          options={[
            ['', 'All'],
            ['busy', 'With a call under way'],
            ['active', 'With calls in the last 5 minutes'],
            ['errors', 'With errors'],
            ['limits', 'Near a limit'],
            ['roots', 'Without a parent'],
          ]}
        />
        <ChoiceFilter name="sort" label="Order" options={sortings.map(({ name, label }) => [name, label] as const)} />
      </Filters>
      {liveError.value !== undefined && <ErrorNotice error={liveError.value} onRetry={() => void reloadSessions()} />}
      {all === undefined && liveError.value === undefined && (
        <p class="loading muted" role="status">
          Loading…
        </p>
      )}
      {all !== undefined && all.length === 0 && (
        <Empty title="There are no live sessions.">
          <p>
            Open one with <code>ambit session create --workspace NAME</code>, or let an agent connect with an API key.
          </p>
        </Empty>
      )}
      {all !== undefined && all.length > 0 && rows.length === 0 && (
        <Empty title="No session matches these filters.">
          <a href={hrefOf(['sessions'])}>Show all sessions</a>
        </Empty>
      )}
      {filter.family !== '' && <Family id={filter.family} />}
      {rows.length > 0 && (
        <>
          {rows.length !== all?.length && (
            <p class="muted" role="status">
              {plural(rows.length, 'session')} of {all?.length}
            </p>
          )}
          <WindowedTable
            key={key}
            caption="Live sessions"
            columns={sessionColumns}
            rows={rows}
            keyOf={({ id }) => id}
          />
        </>
      )}
      <SameData
        command={[
          'ambit session list --activity --json',
          user && `--user ${quoteWord(user)}`,
          workspace && `--workspace ${quoteWord(workspace)}`,
        ]
          .filter(Boolean)
          .join(' ')}
        path={pathOf('GET /api/v1/sessions', { query: { user, workspace, include: 'activity,usage' } })}
        note={
          hasOwnFilters ? 'The search and the filters for trust level and state work only on this page.' : undefined
        }
      />
    </>
  );
}
