import { setTimeout as delay } from 'node:timers/promises';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { journalPath } from '../../observability/journal/journal-files.ts';
import { createStatisticsReader } from '../../observability/journal/statistics/read-statistics.ts';
import { completeRange } from '../../observability/journal/statistics/statistics.ts';
import { type Command, type Invocation, jsonFlag, readFlag, readTimeFlag } from '../command.ts';
import { controlRequest, isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { announceStore, findGateway } from '../io/find-gateway.ts';
import { formatLocalTime, paintText, printData, renderDuration, renderPairs, renderTable } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';
import { resolveSession } from './audit.ts';

type Numbers = AnswerOf<'GET /api/v1/stats'>;
type ListedProcess = AnswerOf<'GET /api/v1/processes'>['processes'][number];

/** The longest wait for a journal that has not been counted yet. */
const maxWaitMs = 60_000;
const pauseMs = 100;
/** With the totals, this many rows fit into 24 lines. */
const [maxRules, maxTools] = [4, 6];

export const statsCommand: Command = {
  help: 'Count calls, refusals and processes in the journal',
  flags: {
    since: { type: 'string', value: 'TIME', help: 'A time ago such as 1h or 7d, or a date or time; default: 24h' },
    until: { type: 'string', value: 'TIME', help: 'The end of the time range; default: now' },
    session: { type: 'string', value: 'ID', help: 'Only this session: its name, its ID or the beginning of its ID' },
    json: jsonFlag,
  },
  async run(invocation) {
    const numbers = await showProgress('Counting the journal', readNumbers(invocation));
    printData(invocation, numbers, () => renderNumbers(numbers));
    return undefined;
  },
};

export const processList: Command = {
  help: 'List running server processes with their memory and limits',
  flags: {
    session: { type: 'string', value: 'ID', help: 'Only processes of this session: its name or its ID' },
    server: { type: 'string', value: 'NAME', help: 'Only processes of this server' },
    json: jsonFlag,
  },
  async run(invocation) {
    const query = { session: readFlag(invocation, 'session'), server: readFlag(invocation, 'server') };
    const found = await controlRequest(invocation, 'GET /api/v1/processes', { query });
    printData(invocation, found, () =>
      found.processes.length === 0
        ? 'No server process is running. The next call of a server starts one.'
        : renderProcesses(found.processes),
    );
    return undefined;
  },
};

/** Asks the running gateway; without one, counts the files of the journal, also if the store cannot be reached. */
async function readNumbers(invocation: Invocation): Promise<Numbers> {
  const query = {
    since: readTimeFlag(invocation, 'since'),
    until: readTimeFlag(invocation, 'until'),
    session: readFlag(invocation, 'session'),
  };
  try {
    const deadline = Date.now() + maxWaitMs;
    for (;;) {
      const numbers = await runningGatewayRequest(invocation, 'GET /api/v1/stats', { query });
      if (numbers.complete || Date.now() > deadline) return numbers;
      await delay(pauseMs);
    }
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const target = await findGateway(invocation);
  announceStore(invocation, target);
  const session = await resolveSession(invocation, target, query.session);
  return createStatisticsReader(journalPath(target.dataDir)).read({ ...completeRange(query), session, maxWaitMs });
}

function renderNumbers({ since, until, totals, processes, refusalsByRule, tools, complete }: Numbers): string {
  const { calls, errors, refusals, p50, p99, sessionsOpened } = totals;
  const end = new Date(Math.min(Date.parse(until), Date.now()));
  const pairs = renderPairs([
    ['time', `${formatLocalTime(new Date(since))} to ${formatLocalTime(end)}`],
    ['calls', `${calls}, of which ${errors} failed`],
    ['duration', p50 === null ? '-' : `median ${formatMs(p50)}, p99 ${formatMs(p99)}`],
    ['refusals', String(refusals)],
    ['sessions', `${sessionsOpened} opened`],
    ['processes', `${processes.started} started, ${processes.failed} failed to start`],
  ]);
  return [
    pairs,
    ...(complete ? [] : ['', 'The journal is still being counted. Later numbers will be higher.']),
    ...renderRows(maxRules, refusalsByRule, 'rule', (rows) =>
      renderTable(
        ['REFUSALS', 'CODE', 'RULE'],
        rows.map(({ count, code, rule }) => [String(count), code ?? '(others)', rule ?? '-']),
      ),
    ),
    ...renderRows(maxTools, tools, 'tool', (rows) =>
      renderTable(
        ['CALLS', 'FAILED', 'MEDIAN', 'P99', 'SERVER', 'TOOL'],
        rows.map((row) => [
          ...[String(row.calls), String(row.errors), formatMs(row.p50), formatMs(row.p99)],
          ...[row.server ?? '(others)', row.tool ?? '-'],
        ]),
        { keepWidth: ['CALLS', 'FAILED', 'MEDIAN', 'P99'] },
      ),
    ),
  ].join('\n');
}

/** Renders the first rows, and says how many more there are. */
function renderRows<Row>(
  max: number,
  rows: readonly Row[],
  noun: string,
  render: (rows: readonly Row[]) => string,
): string[] {
  if (rows.length === 0) return [];
  const more = rows.length - max;
  return [
    '',
    render(rows.slice(0, max)),
    ...(more > 0 ? [paintText('dim', `… and ${formatCount(more, `more ${noun}`)}; all of them with --json`)] : []),
  ];
}

function formatMs(ms: number | null): string {
  if (ms === null) return '-';
  return ms >= 10_000 ? `${(ms / 1000).toFixed(0)} s` : ms >= 100 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(1)} ms`;
}

function renderProcesses(processes: readonly ListedProcess[]): string {
  return renderTable(
    ['SERVER', 'SESSION', 'PID', 'RUNNER', 'AGE', 'IDLE', 'MEMORY', 'MEMORY LIMIT'],
    processes.map(({ server, sessionId, pid, runner, startedAt, idleSince, memoryBytes, limits }) => {
      const limit = limits.find(({ name }) => name === 'memoryMb');
      return [
        server,
        sessionId?.slice(0, 8) ?? 'shared',
        pid === null ? '-' : String(pid),
        runner,
        renderDuration(startedAt),
        idleSince === null ? 'busy' : renderDuration(idleSince),
        memoryBytes === null ? '-' : `${Math.round(memoryBytes / 2 ** 20)} MiB`,
        limit === undefined ? '' : `${limit.value} MiB (${limit.mechanism})`,
      ];
    }),
    { keepWidth: ['SESSION', 'PID', 'AGE', 'IDLE', 'MEMORY'] },
  );
}
