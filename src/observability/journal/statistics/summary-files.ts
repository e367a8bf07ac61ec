import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readFile, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { listNames } from '../../../lib/fs/if-present.ts';
import { makePrivateFolder } from '../../../lib/fs/private-files.ts';
import type { LatencyHistogram } from './latency-histogram.ts';
import { createTally, type DetailTally, type Tally, type ToolTally } from './tally.ts';

/** The state of a journal file that a summary stands for. */
export interface FileVersion {
  readonly inode: number;
  readonly size: number;
}

/** A summary as it is written. Counts stand in lists, which are short and quick to read. */
interface WrittenSummary extends FileVersion {
  readonly version: number;
  readonly detailMinutes: number;
  readonly minutes: readonly (readonly [
    ...WrittenCounts,
    refusals: number,
    opened: number,
    started: number,
    failed: number,
    minute: number,
  ])[];
  readonly tools: Tally['tools'];
  readonly rules: Tally['rules'];
  readonly details: readonly [
    slot: number,
    tools: readonly (readonly [...WrittenCounts, tool: number])[],
    rules: readonly (readonly [rule: number, count: number])[],
  ][];
}

type WrittenCounts = [latencies: LatencyHistogram, calls: number, errors: number];

/** Raised when the meaning of a summary changes: older ones are then made anew. */
const formatVersion = 1;
const folderName = 'summaries';

/** Returns the path of the summary of a closed journal file. */
export function findSummaryPath(closedFile: string): string {
  return join(dirname(closedFile), folderName, basename(closedFile).replace(/\.jsonl$/, '.json'));
}

/** Writes the summary of a file. Another process may write the same one at the same time. */
export async function saveSummary(closedFile: string, version: FileVersion, tally: Tally): Promise<void> {
  const path = findSummaryPath(closedFile);
  makePrivateFolder(dirname(path));
  const draft = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  let handle: FileHandle | undefined;
  try {
    handle = await open(draft, 'wx', 0o600);
    await handle.writeFile(JSON.stringify(toSummary(version, tally)));
    await handle.close();
    handle = undefined;
    await rename(draft, path);
  } catch (error) {
    await handle?.close().catch(() => {});
    await unlink(draft).catch(() => {});
    throw error;
  }
}

/** Loads the summary of a file. Undefined if there is none for this state of the file. */
export async function loadSummary(closedFile: string, { inode, size }: FileVersion): Promise<Tally | undefined> {
  try {
    const summary = JSON.parse(await readFile(findSummaryPath(closedFile), 'utf8')) as WrittenSummary;
    const isValid = summary.version === formatVersion && summary.inode === inode && summary.size === size;
    return isValid ? fromSummary(summary) : undefined;
  } catch {
    return undefined;
  }
}

/** Removes the summaries of files that are gone. */
export async function removeOrphans(file: string, closedFiles: readonly string[]): Promise<void> {
  const folder = join(dirname(file), folderName);
  const known = new Set(closedFiles.map((path) => basename(findSummaryPath(path))));
  const start = `${basename(file, '.jsonl')}-`;
  // A draft of another process is not removed.
  const orphans = listNames(folder).filter(
    (name) => name.startsWith(start) && /\.json$/.test(name) && !known.has(name),
  );
  await Promise.all(orphans.map((name) => unlink(join(folder, name)).catch(() => {})));
}

function toSummary(file: FileVersion, { minutes, detailMinutes, details, tools, rules }: Tally): WrittenSummary {
  return {
    version: formatVersion,
    ...file,
    detailMinutes,
    minutes: [...minutes].map(([minute, { latencies, calls, errors, refusals, sessionsOpened, started, failed }]) => [
      ...([latencies, calls, errors] as const),
      ...([refusals, sessionsOpened, started, failed, minute] as const),
    ]),
    tools,
    rules,
    details: [...details].map(([slot, detail]) => [
      slot,
      [...detail.tools].map(([tool, { latencies, calls, errors }]) => [latencies, calls, errors, tool]),
      [...detail.rules],
    ]),
  };
}

/** Reads a summary. Throws if it is damaged. */
function fromSummary({ minutes, detailMinutes, details, tools, rules }: WrittenSummary): Tally {
  assertCounts([detailMinutes, tools.length, rules.length]);
  const tally = { ...createTally(), detailMinutes, tools, rules };
  for (const [latencies, ...counts] of minutes) {
    assertCounts(latencies);
    assertCounts(counts);
    const [calls, errors, refusals, sessionsOpened, started, failed, minute] = counts;
    tally.minutes.set(minute, { calls, errors, refusals, sessionsOpened, started, failed, latencies });
  }
  for (const [slot, ofTools, ofRules] of details) {
    const detail: DetailTally = { tools: new Map<number, ToolTally>(), rules: new Map(ofRules) };
    assertCounts([slot, ...detail.rules.keys(), ...detail.rules.values()]);
    for (const [latencies, calls, errors, tool] of ofTools) {
      assertCounts(latencies);
      assertCounts([calls, errors, tool]);
      detail.tools.set(tool, { calls, errors, latencies });
    }
    tally.details.set(slot, detail);
  }
  return tally;
}

function assertCounts(values: readonly number[]): void {
  if (!values.every((value) => Number.isSafeInteger(value) && value >= 0)) throw new Error('a damaged summary');
}
