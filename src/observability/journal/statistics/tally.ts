import type { LatencyHistogram } from './latency-histogram.ts';

export interface MinuteTally {
  calls: number;
  errors: number;
  refusals: number;
  sessionsOpened: number;
  started: number;
  failed: number;
  readonly latencies: LatencyHistogram;
}

export interface ToolTally {
  calls: number;
  errors: number;
  readonly latencies: LatencyHistogram;
}

/** The counts by tool and by rule of some minutes. The keys are positions in `tools` and `rules` of the tally. */
export interface DetailTally {
  readonly tools: Map<number, ToolTally>;
  readonly rules: Map<number, number>;
}

/** A tool, or with a tool of null all further tools of a server, or with both null all further ones. */
export interface ToolName {
  readonly server: string | null;
  readonly tool: string | null;
}

/** A rule with an error code; both null for all further ones. */
export interface RuleName {
  readonly rule: string | null;
  readonly code: string | null;
}

/** The counts of one file of the journal. */
export interface Tally {
  readonly minutes: Map<number, MinuteTally>;
  /** By the first minute of each slot. */
  details: Map<number, DetailTally>;
  /** The minutes of one slot of the details: more than one where a file has very many tools. */
  detailMinutes: number;
  readonly tools: ToolName[];
  readonly rules: RuleName[];
}

export const minuteMs = 60_000;
/** The largest number of servers in a tally. */
export const maxServers = 300;

export function createTally(): Tally {
  return {
    minutes: new Map(),
    details: new Map(),
    detailMinutes: 1,
    tools: [{ server: null, tool: null }],
    rules: [{ rule: null, code: null }],
  };
}

export function openSlot(details: Map<number, DetailTally>, slot: number): DetailTally {
  const known = details.get(slot);
  if (known !== undefined) return known;
  const fresh: DetailTally = { tools: new Map(), rules: new Map() };
  details.set(slot, fresh);
  return fresh;
}
