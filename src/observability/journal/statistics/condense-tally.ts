import { mergeHistogram } from './latency-histogram.ts';
import { type DetailTally, maxServers, openSlot, type Tally, type ToolName, type ToolTally } from './tally.ts';

const maxToolRows = 200;
/** The sizes of a slot in minutes. Each divides the next one. */
const slotSizes = [1, 5, 15, 60, 360];
/** The number of counts by tool and rule in a finished file. */
const maxEntries = 5000;

function mergeTool(into: Map<number, ToolTally>, number: number, from: ToolTally): void {
  const known = into.get(number);
  if (known === undefined) {
    into.set(number, { ...from, latencies: [...from.latencies] });
    return;
  }
  known.calls += from.calls;
  known.errors += from.errors;
  mergeHistogram(known.latencies, from.latencies);
}

export function canWiden({ detailMinutes }: Tally): boolean {
  return detailMinutes !== slotSizes.at(-1);
}

/** Joins slots of the details to larger ones. Returns the number of counts that are left. */
export function widenSlots(tally: Tally, renumber: (tool: number) => number = (tool) => tool, isLarger = true): number {
  const next = isLarger ? slotSizes[slotSizes.indexOf(tally.detailMinutes) + 1] : tally.detailMinutes;
  const size = next ?? tally.detailMinutes;
  const details = new Map<number, DetailTally>();
  for (const [minute, { tools, rules }] of tally.details) {
    const slot = openSlot(details, minute - (minute % size));
    for (const [number, numbers] of tools) mergeTool(slot.tools, renumber(number), numbers);
    for (const [number, count] of rules) slot.rules.set(number, (slot.rules.get(number) ?? 0) + count);
  }
  tally.details = details;
  tally.detailMinutes = size;
  return countEntries(tally);
}

function countEntries({ details }: Tally): number {
  return [...details.values()].reduce((sum, { tools, rules }) => sum + tools.size + rules.size, 0);
}

/** Selects the most used tools. Those that had a successful call come first: a caller can invent the others. */
export function selectTools<Tool extends Pick<ToolTally, 'calls' | 'errors'>>(tools: readonly Tool[]): Tool[] {
  const hasSuccess = ({ calls, errors }: Tool) => (calls > errors ? 1 : 0);
  return [...tools]
    .sort((one, other) => hasSuccess(other) - hasSuccess(one) || other.calls - one.calls)
    .slice(0, maxToolRows);
}

/** Makes a copy of a tally that is small enough to be kept for each file: the most used tools, and fewer counts. */
export function condenseTally(from: Tally): Tally {
  const totals = new Map<number, { number: number; calls: number; errors: number }>();
  for (const { tools } of from.details.values()) {
    for (const [number, each] of tools) {
      const { calls, errors } = totals.get(number) ?? { calls: 0, errors: 0 };
      totals.set(number, { number, calls: calls + each.calls, errors: errors + each.errors });
    }
  }
  const named = [...totals.values()].filter(({ number }) => from.tools[number]?.tool !== null);
  const kept = selectTools(named).map(({ number }) => number);
  const tools: ToolName[] = [{ server: null, tool: null }];
  const numbers = new Map(kept.map((number) => [number, tools.push(from.tools[number] as ToolName) - 1]));
  const rests = new Map<string, number>();
  for (const number of totals.keys()) {
    if (numbers.has(number)) continue;
    const server = from.tools[number]?.server ?? null;
    if (server === null) numbers.set(number, 0);
    else {
      const rest = rests.get(server) ?? (rests.size < maxServers ? tools.push({ server, tool: null }) - 1 : 0);
      rests.set(server, rest);
      numbers.set(number, rest);
    }
  }
  const condensed: Tally = { ...from, tools };
  let entries = widenSlots(condensed, (number) => numbers.get(number) ?? 0, false);
  while (entries > maxEntries && canWiden(condensed)) entries = widenSlots(condensed);
  return condensed;
}
