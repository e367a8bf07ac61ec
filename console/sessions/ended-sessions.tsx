import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { onEvent } from '../api/events.ts';
import { type AnswerOf, pathOf, request } from '../api/request.ts';
import { hrefOf, readQuery } from '../frame/route.ts';
import { StateBadge, TrustBadge } from '../parts/badge.tsx';
import { Button } from '../parts/button.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { formatCount, formatDuration, plural } from '../parts/format.ts';
import { Empty, ErrorNotice } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { Table } from '../parts/table.tsx';
import { Ago, Text } from '../parts/text.tsx';
import { cutText, SessionName } from './session-columns.tsx';

type EndedSession = AnswerOf<'GET /api/v1/sessions/ended'>['sessions'][number];

const dayMs = 86_400_000;
const pageSize = 100;
/** Sessions that end within this time are read together. */
const collectMs = 1000;
const spans = [
  ['', 'Last 7 days', 7],
  ['1', 'Last 24 hours', 1],
  ['30', 'Last 30 days', 30],
] as const;

/** How many ended sessions are loaded, and whether there are more. */
export interface EndedCount {
  readonly loaded: number;
  readonly hasMore: boolean;
}

/** The sessions that ended in the last days, the latest first. */
export function EndedSessions({ count }: { readonly count: Signal<EndedCount | undefined> }) {
  const [user, workspace, days] = ['user', 'workspace', 'days'].map(readQuery) as [string, string, string];
  const [, , span = 7] = spans.find(([value]) => value === days) ?? [];
  const rows = useSignal<readonly EndedSession[]>([]);
  const next = useSignal<string | null>(null);
  const isLoading = useSignal(true);
  const error = useSignal<Error | undefined>(undefined);
  const query = {
    since: new Date(Date.now() - span * dayMs).toISOString(),
    ...(user === '' ? {} : { user }),
    ...(workspace === '' ? {} : { workspace }),
  };

  const load = async (after?: string) => {
    isLoading.value = true;
    try {
      let page = after;
      let found = 0;
      // A page may be empty and not the last.
      do {
        const answer = await request('GET /api/v1/sessions/ended', {
          query: { ...query, limit: String(pageSize), ...(page === undefined ? {} : { after: page }) },
        });
        rows.value = page === undefined ? answer.sessions : [...rows.value, ...answer.sessions];
        next.value = answer.next;
        page = answer.next ?? undefined;
        found += answer.sessions.length;
      } while (found === 0 && page !== undefined);
      error.value = undefined;
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isLoading.value = false;
    }
  };
  useEffect(() => {
    rows.value = [];
    void load();
  }, [user, workspace, span]);
  useEffect(() => {
    count.value = isLoading.value && rows.value.length === 0 ? undefined : countRows(rows.value, next.value);
  }, [rows.value, next.value, isLoading.value]);
  /** Adds the sessions that ended since the list was read. */
  const addNew = async () => {
    if (isLoading.peek()) return;
    const known = rows.peek();
    const page = await request('GET /api/v1/sessions/ended', { query: { ...query, limit: String(pageSize) } }).catch(
      () => undefined,
    );
    // Other filters or older sessions may have been asked for meanwhile.
    if (page === undefined || known !== rows.peek()) return;
    const ids = new Set(page.sessions.map(({ id }) => id));
    const others = known.filter(({ id }) => !ids.has(id));
    // Between a full page of new sessions and the known ones, some may be missing.
    const isWhole = page.next === null || others.length < known.length;
    rows.value = isWhole ? [...page.sessions, ...others] : page.sessions;
    if (!isWhole || others.length === 0) next.value = page.next;
  };
  useEndedEvents(addNew);
  const text = readQuery('text').toLowerCase();
  const shown = text === '' ? rows.value : rows.value.filter((session) => hasText(session, text));

  return (
    <>
      <Filters>
        <TextFilter name="text" label="Search" placeholder="Name, agent…" />
        <TextFilter name="user" label="User" />
        <TextFilter name="workspace" label="Workspace" />
        <ChoiceFilter name="days" label="Ended in" options={spans.map(([value, label]) => [value, label] as const)} />
      </Filters>
      {error.value !== undefined && <ErrorNotice error={error.value} onRetry={() => void load()} />}
      {rows.value.length === 0 && !isLoading.value && error.value === undefined && (
        <Empty title="No session has ended in this time.">
          <a href={hrefOf(['sessions'])}>Show the live sessions</a>
        </Empty>
      )}
      {text !== '' && rows.value.length > 0 && (
        <p class="muted" role="status">
          {`${plural(shown.length, 'session')} of the ${formatCount(rows.value.length)} loaded ones.`}
          {next.value !== null && ' Older ones are searched when they are loaded.'}
        </p>
      )}
      {shown.length > 0 && (
        <section class="card card-flush">
          <Table
            caption="Ended sessions"
            rows={shown}
            keyOf={({ id }) => id}
            columns={[
              {
                label: 'Session',
                cell: (session) => (
                  <span class="session-pair">
                    <SessionName session={session} />
                    <span class="session-second to-phone">
                      <Text value={cutText(session.userId)} />
                    </span>
                  </span>
                ),
              },
              { label: 'User', from: 'tablet', cell: ({ userId }) => <Text value={userId} max={60} /> },
              { label: 'Agent', from: 'desktop', cell: ({ agentId }) => <Text value={agentId ?? 'none'} max={60} /> },
              {
                label: 'Workspace',
                from: 'tablet',
                cell: ({ workspaceId }) => <Text value={workspaceId ?? 'none'} max={60} />,
              },
              { label: 'Trust', from: 'tablet', cell: ({ trustLevel }) => <TrustBadge level={trustLevel} /> },
              { label: 'Task', from: 'desktop', cell: ({ task }) => <Text value={task ?? ''} max={80} /> },
              {
                label: 'Lived',
                from: 'tablet',
                cell: ({ createdAt, endedAt }) => (
                  <span class="nowrap">{formatDuration(Date.parse(endedAt) - Date.parse(createdAt))}</span>
                ),
              },
              { label: 'Ended', cell: ({ endedAt }) => <Ago at={endedAt} /> },
              { label: 'Why', cell: ({ reason }) => <StateBadge state={reason} /> },
            ]}
          />
        </section>
      )}
      {isLoading.value && (
        <p class="loading muted" role="status">
          Loading…
        </p>
      )}
      {next.value !== null && !isLoading.value && (
        <Button onClick={() => void load(next.value ?? undefined)}>Load older sessions</Button>
      )}
      <SameData
        command={[
          `ambit session list --ended --json --since ${span}d`,
          user && `--user ${quoteWord(user)}`,
          workspace && `--workspace ${quoteWord(workspace)}`,
        ]
          .filter(Boolean)
          .join(' ')}
        path={pathOf('GET /api/v1/sessions/ended', { query })}
      />
    </>
  );
}

function countRows(rows: readonly EndedSession[], next: string | null): EndedCount {
  return { loaded: rows.length, hasMore: next !== null };
}

function hasText({ id, name, userId, agentId, workspaceId, task }: EndedSession, text: string): boolean {
  return [id, name, userId, agentId, workspaceId, task].some((value) => value?.toLowerCase().includes(text) === true);
}

const ends: ReadonlySet<string> = new Set(['ended', 'expired', 'evicted', 'resync']);

/** Calls the function after sessions have ended, at most once a second. */
function useEndedEvents(act: () => Promise<void>): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onEvent((type) => {
      if (!ends.has(type)) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void latest.current();
      }, collectMs);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
}
