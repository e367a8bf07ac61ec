import { readFileSync } from 'node:fs';

/** What is left to everything but connections: stores, journals, and three pipes for each process. */
const otherDescriptors = 384;

/** How many connections there may be, as wanted, or as many as this process has descriptors for. */
export function maxConnectionsWithin(wanted: number, descriptors = descriptorLimit()): number {
  return Math.max(16, Math.min(wanted, descriptors - otherDescriptors));
}

/** How many files and sockets this process may have open; Infinity where that is not told. */
function descriptorLimit(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}
