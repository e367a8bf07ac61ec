import { useEffect, useMemo } from 'preact/hooks';
import { type AnswerOf, pathOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery } from '../frame/route.ts';
import { Card, View } from '../parts/card.tsx';
import { Chart } from '../parts/chart.tsx';
import { ChoiceFilter, Filters } from '../parts/filters.tsx';
import { formatBytes, formatCount, formatMs, now } from '../parts/format.ts';
import { Answer, Empty, Notice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Table } from '../parts/table.tsx';
import { Text } from '../parts/text.tsx';
import { computeCallRate } from '../sessions/call-rate.ts';
import { liveSessions, reloadSessions } from '../sessions/live-sessions.ts';
import './overview.css';

type Stats = AnswerOf<'GET /api/v1/stats'>;

const hourMs = 3_600_000;
const ranges: readonly (readonly [value: string, label: string, hours: number])[] = [
  ['', 'Last hour', 1],
  ['6h', 'Last 6 hours', 6],
  ['24h', 'Last 24 hours', 24],
  ['7d', 'Last 7 days', 168],
  ['30d', 'Last 30 days', 720],
];
const refreshMs = 10_000;
const rowMs = 60_000;

/** What happens in the gateway, in numbers. Each number leads to the list behind it. */
export function Overview() {
  const range = readQuery('range');
  const [, , hours = 1] = ranges.find(([value]) => value === range) ?? [];
  // The start moves on once a minute, so that the numbers are not asked for with every drawing.
  const minute = Math.floor(Date.now() / rowMs);
  const since = useMemo(() => new Date(minute * rowMs - hours * hourMs).toISOString(), [minute, hours]);
  const stats = useRequest('GET /api/v1/stats', { query: { since } }, { everyMs: refreshMs });
  useEffect(() => {
    if (liveSessions.peek() === undefined) void reloadSessions();
  }, []);
  return (
    <View title="Overview">
      <Now />
      <Filters>
        <ChoiceFilter name="range" label="Time" options={ranges.map(([value, label]) => [value, label] as const)} />
      </Filters>
      <Answer of={stats}>{(answer) => <Numbers stats={answer} />}</Answer>
      <SameData
        command={`ambit stats --since ${hours}h --json`}
        path={pathOf('GET /api/v1/stats', { query: { since } })}
        more={[{ command: 'ambit process list --json', path: '/api/v1/processes' }]}
      />
    </View>
  );
}

/** What runs at this moment. */
function Now() {
  const processes = useRequest('GET /api/v1/processes', {}, { everyMs: refreshMs });
  const running = processes.answer.value?.processes;
  const memory = running?.reduce((sum, { memoryBytes }) => sum + (memoryBytes ?? 0), 0);
  const live = liveSessions.value;
  const busy = live?.filter(({ activity }) => (activity?.underWay ?? 0) > 0);
  const countOf = (list: readonly unknown[] | undefined) => (list === undefined ? '…' : formatCount(list.length));
  return (
    <section class="figures figures-now" aria-label="Now">
      <Figure label="Live sessions" value={countOf(live)} href={hrefOf(['sessions'])} />
      <Figure label="With a call under way" value={countOf(busy)} href={hrefOf(['sessions'], { show: 'busy' })} />
      <Figure
        label="Calls per second"
        title="On average over the last minute"
        value={formatRate(computeCallRate(now.value))}
        href={hrefOf(['sessions'], { sort: 'active' })}
      />
      <Figure label="Server processes" value={countOf(running)} href={hrefOf(['servers'], { show: 'running' })} />
      <Figure
        label="Their memory"
        value={memory === undefined ? '…' : formatBytes(memory)}
        href={hrefOf(['servers'], { show: 'running' })}
      />
    </section>
  );
}

function formatRate(rate: number | undefined): string {
  if (rate === undefined) return '…';
  if (rate > 0 && rate < 0.1) return '<0.1';
  return rate === 0 ? '0' : rate < 10 ? rate.toFixed(1) : formatCount(Math.round(rate));
}

interface FigureProps {
  readonly label: string;
  readonly value: string;
  readonly href: string;
  readonly isBad?: boolean;
  readonly title?: string;
}

function Figure({ label, value, href, isBad, title }: FigureProps) {
  return (
    <a class={isBad === true ? 'figure figure-bad' : 'figure'} href={href} title={title}>
      <span class="figure-label">{label}</span>
      <span class="figure-value">{value}</span>
    </a>
  );
}

/** The calls that are counted. Lists of tools and other requests are not. */
const toolCalls = { kind: 'call', method: 'tools/call' };

/** A refused call failed too, and counts as both. */
const failedLabel = 'Failed calls';
const failedTitle = 'Calls that a tool or a server failed, or that Ambit refused';

function Numbers({ stats }: { readonly stats: Stats }) {
  // The numbers begin with a whole step, which may be earlier than asked for.
  const { totals, processes, complete, since } = stats;
  const { calls, errors, refusals, p50, p99, sessionsOpened } = totals;
  const inJournal = (query: Record<string, string>) => hrefOf(['journal'], { since, ...query });
  return (
    <>
      {!complete && (
        <Notice tone="warn">
          Older files of the journal are still being counted. The numbers are too low for now.
        </Notice>
      )}
      <section class="figures" aria-label="In this time">
        <Figure label="Calls" value={formatCount(calls)} href={inJournal(toolCalls)} />
        <Figure
          label={failedLabel}
          title={failedTitle}
          value={formatCount(errors)}
          href={inJournal({ ...toolCalls, outcome: 'error' })}
          isBad={errors > 0}
        />
        <Figure
          label="Refusals"
          title="Refused calls, and requests that were refused before they became a call"
          value={formatCount(refusals)}
          href={inJournal({ outcome: 'refusal' })}
          isBad={refusals > 0}
        />
        <Figure label="Median duration" value={p50 === null ? 'none' : formatMs(p50)} href={inJournal(toolCalls)} />
        <Figure label="99th percentile" value={p99 === null ? 'none' : formatMs(p99)} href={inJournal(toolCalls)} />
        <Figure
          label="Sessions opened"
          value={formatCount(sessionsOpened)}
          href={inJournal({ kind: 'session', event: 'created' })}
        />
        <Figure
          label="Processes started"
          value={formatCount(processes.started)}
          href={inJournal({ kind: 'process', event: 'started' })}
        />
        <Figure
          label="Failed to start"
          value={formatCount(processes.failed)}
          href={inJournal({ kind: 'process', event: 'start-failed' })}
          isBad={processes.failed > 0}
        />
      </section>
      {calls + refusals === 0 ? (
        <Empty title="No tool was called in this time.">
          <p>
            Connect an agent: <code>ambit client NAME</code> prints its configuration.
          </p>
        </Empty>
      ) : (
        <>
          <Charts stats={stats} />
          <div class="overview-columns">
            <RefusalsByRule stats={stats} />
            <TopTools stats={stats} />
          </div>
        </>
      )}
    </>
  );
}

function Charts({ stats }: { readonly stats: Stats }) {
  const { series, totals } = stats;
  const times = useMemo(() => series.map(({ at }) => Date.parse(at)), [series]);
  const counts = useMemo(
    () =>
      [
        { label: 'Calls', colour: 1, values: series.map(({ calls }) => calls), whole: totals.calls },
        { label: failedLabel, colour: 2, values: series.map(({ errors }) => errors), whole: totals.errors },
        { label: 'Refusals', colour: 4, values: series.map(({ refusals }) => refusals), whole: totals.refusals },
      ] as const,
    [series],
  );
  const durations = useMemo(
    () =>
      [
        { label: 'Median', colour: 3, values: series.map(({ p50 }) => p50), whole: totals.p50 },
        { label: '99th percentile', colour: 2, values: series.map(({ p99 }) => p99), whole: totals.p99 },
      ] as const,
    [series],
  );
  return (
    <div class="overview-columns">
      <Card>
        <Chart title="Calls" times={times} series={counts} format={formatCount} />
      </Card>
      <Card>
        <Chart title="Duration" times={times} series={durations} format={formatMs} />
      </Card>
    </div>
  );
}

const maxRows = 10;

type RuleRow = Stats['refusalsByRule'][number];

/** The address of the refusals of a row. Requests that were refused before they became a call may have no code. */
function hrefOfRefusals(since: string, { rule, code }: RuleRow): string {
  // The row of all others: the journal has no list of these alone.
  if (rule === null && code === null) return hrefOf(['journal'], { since, outcome: 'refusal' });
  const isEvent = code !== null && !/^[A-Z]/.test(code);
  const which = isEvent ? { kind: 'refusal', event: code } : { outcome: code ?? 'refusal', rule: rule ?? '-' };
  return hrefOf(['journal'], { since, ...which });
}

function RefusalsByRule({ stats }: { readonly stats: Stats }) {
  const { since } = stats;
  const rows = stats.refusalsByRule.slice(0, maxRows);
  return (
    <Card title="Refusals by rule" isFlush>
      {rows.length === 0 ? (
        <Empty title="Nothing was refused." />
      ) : (
        <Table
          caption="Refusals by rule"
          rows={rows}
          keyOf={({ rule, code }) => `${rule} ${code}`}
          columns={[
            {
              label: 'Rule',
              cell: ({ rule }) =>
                rule === null ? (
                  <span class="muted">no rule</span>
                ) : (
                  <code>
                    <Text value={rule} max={80} />
                  </code>
                ),
            },
            {
              label: 'Reason',
              cell: ({ code }) =>
                code === null ? <span class="muted">all others</span> : <Text value={code} max={60} />,
            },
            {
              label: 'Refusals',
              isNumber: true,
              cell: (row) => <a href={hrefOfRefusals(since, row)}>{formatCount(row.count)}</a>,
            },
          ]}
        />
      )}
    </Card>
  );
}

type ToolRow = Stats['tools'][number];

function TopTools({ stats }: { readonly stats: Stats }) {
  const rows = stats.tools.slice(0, maxRows);
  const link = ({ server, tool }: ToolRow, text: string, query: Record<string, string> = {}) => {
    // The journal has no list of the calls of all other tools alone.
    const which = server === null || tool === null ? {} : { server, tool };
    return <a href={hrefOf(['journal'], { since: stats.since, ...which, ...toolCalls, ...query })}>{text}</a>;
  };
  const linkDuration = (row: ToolRow, ms: number | null) => (ms === null ? '' : link(row, formatMs(ms)));
  return (
    <Card title="Tools with the most calls" aside={<span>Failed includes refused</span>} isFlush>
      {rows.length === 0 ? (
        <Empty title="No tool was called." />
      ) : (
        <Table
          caption="Tools with the most calls"
          rows={rows}
          keyOf={({ server, tool }) => `${server} ${tool}`}
          columns={[
            {
              label: 'Tool',
              cell: ({ server, tool }) =>
                tool === null || server === null ? (
                  <span class="muted">all others</span>
                ) : (
                  <Text value={`${server} ${tool}`} max={80} />
                ),
            },
            { label: 'Calls', isNumber: true, cell: (row) => link(row, formatCount(row.calls)) },
            {
              label: 'Failed',
              isNumber: true,
              cell: (row) => link(row, formatCount(row.errors), { outcome: 'error' }),
            },
            { label: 'p50', isNumber: true, from: 'tablet', cell: (row) => linkDuration(row, row.p50) },
            { label: 'p99', isNumber: true, cell: (row) => linkDuration(row, row.p99) },
          ]}
        />
      )}
    </Card>
  );
}
