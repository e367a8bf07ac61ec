import * as z from 'zod';
import type { StopReason } from '../search/search-budget.ts';
import type { WalkedEntry } from '../search/walk-files.ts';

/** No system has longer paths. */
export const pathArgument = z.string().min(1).max(4096);

export const sha256Schema = z.string().nullable().describe('Hash of the whole file; null above 16 MiB.');

/** An entry of a workspace, as lists and searches show it. */
export const entrySchema = z.strictObject({
  path: z.string().describe('Relative to the workspace.'),
  kind: z.enum(['file', 'folder', 'link', 'special']),
  bytes: z.number().int().nullable().describe('Size of a file.'),
  modified: z.string().nullable().describe('ISO 8601'),
  ignored: z.literal(true).optional().describe('Ignored by .gitignore, or .git itself.'),
  closed: z.literal(true).optional().describe('Sessions may not read it.'),
  unrepresentable: z.literal(true).optional().describe('The name is not valid UTF-8, so no path can address it.'),
});

export function describeEntry(entry: WalkedEntry): z.input<typeof entrySchema> {
  const { path, kind, bytes, modifiedMs, ignored, closed, unrepresentable } = entry;
  const common = {
    path,
    kind,
    bytes: kind === 'file' ? (bytes ?? null) : null,
    modified: modifiedMs === undefined ? null : formatTime(modifiedMs),
  };
  if (!ignored && !closed && !unrepresentable) return common;
  return {
    ...common,
    ...(ignored ? { ignored } : {}),
    ...(closed ? { closed } : {}),
    ...(unrepresentable ? { unrepresentable } : {}),
  };
}

/** The latest time that a Date can hold. */
const maxDateMs = 8.64e15;

/** Formats a file time. Some file systems and owners of files set times that no Date can hold. */
export function formatTime(ms: number): string {
  return new Date(Math.max(-maxDateMs, Math.min(ms, maxDateMs))).toISOString();
}

export const truncatedSchema = z
  .enum(['limit', 'entries', 'time', 'depth'])
  .nullable()
  .describe(
    'Why the result may be incomplete: limit, too many entries, time limit, or folders too deep. Null if it is complete.',
  );

const truncationReasons: Readonly<Record<StopReason | 'limit', string>> = {
  limit: 'The limit is reached, and there are more.',
  entries: 'There are more files than one search can cover.',
  time: 'The search reached its time limit.',
  depth: 'Some folders are nested too deeply to be searched.',
};

/** Explains in a line why results are missing, with advice; no line when they are complete. */
export function explainTruncation(why: StopReason | 'limit' | null, advice: string): string[] {
  return why === null ? [] : [`[${truncationReasons[why]} ${advice}]`];
}

/** The whole workspace unless given. */
export const folderArgument = z.string().min(1).max(4096).optional();

export const limitArgument = z.number().int().min(1).max(1000).optional();
export const defaultLimit = 100;
