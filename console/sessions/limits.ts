import { formatBytes, formatCount } from '../parts/format.ts';
import { countCalls, type LiveSession } from './live-sessions.ts';

/** A limit of a session with how much of it is used. */
export interface UsedLimit {
  readonly name: string;
  readonly label: string;
  /** The numbers in few words, such as `7 of 40 calls`. */
  readonly text: string;
  readonly used: number;
  readonly max: number;
  /** The used part, from 0 to 1 and more. */
  readonly part: number;
}

/** The slots of ten seconds that make a minute. */
const minuteSlots = 6;

/** Lists the limits of a session, those first that never recover. A limit that is not set is left out. */
export function listUsedLimits(session: LiveSession): readonly UsedLimit[] {
  const { limits, usage, activity } = session;
  const recent = activity?.recent.slice(-minuteSlots).reduce((sum, count) => sum + count, 0) ?? 0;
  const all: readonly (readonly [string, string, number, number | null | undefined])[] = [
    ['totalCalls', 'Calls in all', countCalls(session), limits?.totalCalls],
    ['totalBytes', 'Bytes in all', usage?.bytes ?? 0, limits?.totalBytes],
    ['callsPerMinute', 'Calls in the last minute', recent, limits?.callsPerMinute],
    ['concurrentCalls', 'Calls under way', activity?.underWay ?? 0, limits?.concurrentCalls],
  ];
  return all.flatMap(([name, label, used, max]) => {
    if (max === null || max === undefined) return [];
    return [{ name, label, used, max, text: writeNumbers(name, used, max), part: max === 0 ? 1 : used / max }];
  });
}

const units: Readonly<Record<string, string>> = {
  callsPerMinute: ' a minute',
  concurrentCalls: ' at once',
  totalCalls: ' calls',
};

function writeNumbers(name: string, used: number, max: number): string {
  const format = name === 'totalBytes' ? formatBytes : formatCount;
  return `${format(used)} of ${format(max)}${units[name] ?? ''}`;
}

/** Finds the limit of which the greatest part is used. */
export function findNearestLimit(session: LiveSession): UsedLimit | undefined {
  return listUsedLimits(session).reduce<UsedLimit | undefined>(
    (nearest, limit) => (nearest === undefined || limit.part > nearest.part ? limit : nearest),
    undefined,
  );
}
