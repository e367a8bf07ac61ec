import { mergeTool } from './condense-tally.ts';
import { bucketCount, estimateQuantile, spreadHistogram } from './latency-histogram.ts';
import { maxToolRows, minuteMs, type Tally, type ToolName, type ToolTally } from './tally.ts';

/** A time range of the journal, in milliseconds since 1970. */
export interface StatisticsQuery {
  readonly since: number;
  readonly until: number;
  /** The id of a session, or its beginning. */
  readonly session?: string | undefined;
  /** The longest time to wait for files that were not read yet; two seconds unless given. */
  readonly maxWaitMs?: number | undefined;
}

interface CallNumbers {
  readonly calls: number;
  readonly errors: number;
}

interface Latencies {
  readonly p50: number | null;
  readonly p99: number | null;
}

/** Numbers of a time range. A name of null stands for everything that has no row of its own. */
export interface Statistics {
  readonly since: string;
  readonly until: string;
  readonly stepSeconds: number;
  readonly series: readonly (CallNumbers & Latencies & { readonly at: string; readonly refusals: number })[];
  readonly totals: CallNumbers & Latencies & { readonly refusals: number; readonly sessionsOpened: number };
  readonly refusalsByRule: readonly {
    readonly rule: string | null;
    readonly code: string | null;
    readonly count: number;
  }[];
  readonly tools: readonly (CallNumbers & Latencies & ToolName)[];
  readonly servers: readonly (CallNumbers & { readonly server: string | null })[];
  readonly processes: { readonly started: number; readonly failed: number };
  /** False if files are still being read. */
  readonly complete: boolean;
}

const maxSteps = 120;
/** The lengths of a step in minutes. Each begins at a multiple of itself in UTC, so that later answers have the same steps. */
const stepMinutes = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440];

/** The steps of a time range: whole ones, so that all numbers of an answer are about the same time. */
interface StepRange {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
}

/** Chooses the shortest step with which a time range has at most 120 steps. */
export function chooseSteps({ since, until }: StatisticsQuery): StepRange {
  for (const minutes of stepMinutes) {
    const stepMs = minutes * minuteMs;
    const from = Math.floor(since / stepMs) * stepMs;
    const to = Math.ceil(until / stepMs) * stepMs;
    if ((to - from) / stepMs <= maxSteps || minutes === stepMinutes.at(-1)) return { from, to, stepMs };
  }
  throw new Error('there is always a longest step');
}

interface StepCounts {
  calls: number;
  errors: number;
  refusals: number;
  readonly latencies: Float64Array;
}

const createStep = (): StepCounts => ({
  calls: 0,
  errors: 0,
  refusals: 0,
  latencies: new Float64Array(bucketCount),
});

/** Adds up the tallies of files. */
export function composeStatistics(tallies: Iterable<Tally>, range: StepRange, complete: boolean): Statistics {
  const { from, to, stepMs } = range;
  const steps = Array.from({ length: (to - from) / stepMs }, createStep);
  const total = createStep();
  let [sessionsOpened, started, failed] = [0, 0, 0];
  const tools = new Map<string, ToolName & { readonly numbers: Map<number, ToolTally> }>();
  const rules = new Map<string, { rule: string | null; code: string | null; count: number }>();
  for (const tally of tallies) {
    for (const [minute, counts] of tally.minutes) {
      const step = steps[Math.floor((minute * minuteMs - from) / stepMs)];
      if (step === undefined) continue;
      for (const each of [step, total]) {
        each.calls += counts.calls;
        each.errors += counts.errors;
        each.refusals += counts.refusals;
        spreadHistogram(each.latencies, counts.latencies);
      }
      sessionsOpened += counts.sessionsOpened;
      started += counts.started;
      failed += counts.failed;
    }
    for (const [slot, detail] of tally.details) {
      // A slot of several minutes belongs to the range that has its middle.
      const middle = (slot + tally.detailMinutes / 2) * minuteMs;
      if (middle < from || middle >= to) continue;
      for (const [number, counts] of detail.tools) {
        const name = tally.tools[number] ?? { server: null, tool: null };
        const key = JSON.stringify([name.server, name.tool]);
        const row = tools.get(key) ?? { ...name, numbers: new Map<number, ToolTally>() };
        tools.set(key, row);
        mergeTool(row.numbers, 0, counts);
      }
      for (const [number, count] of detail.rules) {
        const name = tally.rules[number] ?? { rule: null, code: null };
        const key = JSON.stringify([name.rule, name.code]);
        const row = rules.get(key) ?? { ...name, count: 0 };
        rules.set(key, row);
        row.count += count;
      }
    }
  }
  const rows = [...tools.values()].map(({ server, tool, numbers }) => ({
    server,
    tool,
    ...(numbers.get(0) as ToolTally),
  }));
  return {
    since: new Date(from).toISOString(),
    until: new Date(to).toISOString(),
    stepSeconds: stepMs / 1000,
    series: steps.map((step, at) => ({ at: new Date(from + at * stepMs).toISOString(), ...showStep(step) })),
    totals: { ...showStep(total), sessionsOpened },
    refusalsByRule: [...rules.values()].sort((one, other) => other.count - one.count),
    tools: listTools(rows),
    servers: listServers(rows),
    processes: { started, failed },
    complete,
  };
}

function showStep({ calls, errors, refusals, latencies }: StepCounts) {
  return { calls, errors, refusals, ...showLatencies(latencies) };
}

function showLatencies(counts: Float64Array): Latencies {
  return { p50: estimateQuantile(counts, 0.5), p99: estimateQuantile(counts, 0.99) };
}

type ToolRow = ToolName & ToolTally;

/** Lists the most used tools. The last row is about all others. */
function listTools(rows: readonly ToolRow[]): Statistics['tools'] {
  const named = rows.filter(({ tool }) => tool !== null).sort((one, other) => other.calls - one.calls);
  const shown = named.slice(0, maxToolRows);
  const rest = new Map<number, ToolTally>();
  for (const row of [...named.slice(maxToolRows), ...rows.filter(({ tool }) => tool === null)]) mergeTool(rest, 0, row);
  const others = [...rest.values()].map((numbers) => ({ server: null, tool: null, ...numbers }));
  return [...shown, ...others].map(({ server, tool, calls, errors, latencies }) => {
    const counts = new Float64Array(bucketCount);
    spreadHistogram(counts, latencies);
    return { server, tool, calls, errors, ...showLatencies(counts) };
  });
}

function listServers(rows: readonly ToolRow[]): Statistics['servers'] {
  const servers = new Map<string | null, { server: string | null; calls: number; errors: number }>();
  for (const { server, calls, errors } of rows) {
    const known = servers.get(server) ?? { server, calls: 0, errors: 0 };
    servers.set(server, { server, calls: known.calls + calls, errors: known.errors + errors });
  }
  return [...servers.values()].sort((one, other) => other.calls - one.calls);
}
