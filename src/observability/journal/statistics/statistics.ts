import { AmbitError } from '../../../errors.ts';
import { selectTools } from './condense-tally.ts';
import { bucketCount, estimateQuantile, spreadHistogram } from './latency-histogram.ts';
import { minuteMs, type RuleName, type Tally, type ToolName, type ToolTally } from './tally.ts';

/** A time range of the journal, in milliseconds since 1970. */
export interface StatisticsQuery {
  readonly since: number;
  readonly until: number;
  /** The id of a session, or its beginning. */
  readonly session?: string | undefined;
  /** The longest time to wait for files that were not read yet; two seconds unless given. */
  readonly maxWaitMs?: number | undefined;
}

const dayMs = 86_400_000;
/** A little more than 30 days: the clock of a caller may differ, and the request takes time. */
const maxRangeDays = 31;

/** Completes a time range: the last 24 hours unless given. Throws if it is not valid. */
export function completeRange(given: {
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}): Pick<StatisticsQuery, 'since' | 'until'> {
  const until = given.until === undefined ? Date.now() : Date.parse(given.until);
  const since = given.since === undefined ? until - dayMs : Date.parse(given.since);
  if (since >= until) throw new AmbitError('REQUEST_INVALID', { what: 'since: must be earlier than until' });
  if (until - since > maxRangeDays * dayMs)
    throw new AmbitError('REQUEST_INVALID', { what: `since: must be at most ${maxRangeDays} days before until` });
  return { since, until };
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
  readonly refusalsByRule: readonly (RuleName & { readonly count: number })[];
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

interface CallCounts {
  calls: number;
  errors: number;
  readonly latencies: Float64Array;
}

interface StepCounts extends CallCounts {
  refusals: number;
}

interface ToolRow extends CallCounts, ToolName {}

const createCounts = () => ({ calls: 0, errors: 0, latencies: new Float64Array(bucketCount) });
const createStep = (): StepCounts => ({ ...createCounts(), refusals: 0 });

/** Adds up the tallies of files. */
export function composeStatistics(tallies: Iterable<Tally>, range: StepRange, complete: boolean): Statistics {
  const { from, to, stepMs } = range;
  const steps = Array.from({ length: (to - from) / stepMs }, createStep);
  const tools = new Map<string, ToolRow>();
  const rules = new Map<string, RuleName & { count: number }>();
  let [sessionsOpened, started, failed] = [0, 0, 0];
  for (const tally of tallies) {
    for (const [minute, counts] of tally.minutes) {
      const step = steps[Math.floor((minute * minuteMs - from) / stepMs)];
      if (step === undefined) continue;
      addCounts(step, counts);
      step.refusals += counts.refusals;
      sessionsOpened += counts.sessionsOpened;
      started += counts.started;
      failed += counts.failed;
    }
    addDetails(tally, range, tools, rules);
  }
  const total = createStep();
  for (const step of steps) {
    addCounts(total, step);
    total.refusals += step.refusals;
  }
  return {
    since: new Date(from).toISOString(),
    until: new Date(to).toISOString(),
    stepSeconds: stepMs / 1000,
    series: steps.map((step, at) => ({ at: new Date(from + at * stepMs).toISOString(), ...showStep(step) })),
    totals: { ...showStep(total), sessionsOpened },
    refusalsByRule: [...rules.values()].sort((one, other) => other.count - one.count),
    tools: listTools([...tools.values()]),
    servers: listServers([...tools.values()]),
    processes: { started, failed },
    complete,
  };
}

/** Adds the counts by tool and by rule. A slot of several minutes belongs to the range that has its middle. */
function addDetails(
  tally: Tally,
  { from, to }: StepRange,
  tools: Map<string, ToolRow>,
  rules: Map<string, RuleName & { count: number }>,
): void {
  const toolRows = new Map<number, ToolRow>();
  const halfMs = (tally.detailMinutes / 2) * minuteMs;
  for (const [slot, detail] of tally.details) {
    const middle = slot * minuteMs + halfMs;
    if (middle < from || middle >= to) continue;
    for (const [number, counts] of detail.tools) {
      let row = toolRows.get(number);
      if (row === undefined) {
        const name = tally.tools[number] ?? { server: null, tool: null };
        row = getOrCreate(tools, JSON.stringify([name.server, name.tool]), () => ({ ...name, ...createCounts() }));
        toolRows.set(number, row);
      }
      addCounts(row, counts);
    }
    for (const [number, count] of detail.rules) {
      const name = tally.rules[number] ?? { rule: null, code: null };
      getOrCreate(rules, JSON.stringify([name.rule, name.code]), () => ({ ...name, count: 0 })).count += count;
    }
  }
}

function getOrCreate<Value>(map: Map<string, Value>, key: string, create: () => Value): Value {
  const value = map.get(key) ?? create();
  map.set(key, value);
  return value;
}

function addCounts(into: CallCounts, { calls, errors, latencies }: Readonly<CallCounts> | ToolTally): void {
  into.calls += calls;
  into.errors += errors;
  if (Array.isArray(latencies)) spreadHistogram(into.latencies, latencies);
  else for (const [bucket, count] of latencies.entries()) (into.latencies[bucket] as number) += count;
}

function showCalls({ calls, errors, latencies }: CallCounts) {
  return { calls, errors, p50: estimateQuantile(latencies, 0.5), p99: estimateQuantile(latencies, 0.99) };
}

function showStep(step: StepCounts) {
  return { ...showCalls(step), refusals: step.refusals };
}

/** Lists the most used tools. The last row is about all others. */
function listTools(rows: readonly ToolRow[]): Statistics['tools'] {
  const shown = selectTools(rows.filter(({ tool }) => tool !== null)).sort((one, other) => other.calls - one.calls);
  const further = rows.filter((row) => !shown.includes(row));
  const rest: ToolRow = { server: null, tool: null, ...createCounts() };
  for (const row of further) addCounts(rest, row);
  return [...shown, ...(further.length === 0 ? [] : [rest])].map((row) => ({
    server: row.server,
    tool: row.tool,
    ...showCalls(row),
  }));
}

function listServers(rows: readonly ToolRow[]): Statistics['servers'] {
  const servers = new Map<string | null, { server: string | null; calls: number; errors: number }>();
  for (const { server, calls, errors } of rows) {
    const known = servers.get(server) ?? { server, calls: 0, errors: 0 };
    servers.set(server, { server, calls: known.calls + calls, errors: known.errors + errors });
  }
  return [...servers.values()].sort((one, other) => other.calls - one.calls);
}
