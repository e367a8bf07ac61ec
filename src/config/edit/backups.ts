import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';

/** A backup is the file as it was. `created` is an empty file that stands for a file that did not exist. */
const backupSuffix = /^\.(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}-\d{3}Z)\.(?:backup|created)$/;
const timestamp = (): string => new Date().toISOString().replace(/[:.]/g, '-');

/** Follows a link, so that a file kept elsewhere stays there. */
function resolveLink(file: string): string {
  return existsSync(file) ? realpathSync(file) : file;
}

/** The result of replacing a file. */
export interface ReplacedFile {
  /** The path of the old version; undefined where there was none. */
  readonly backup: string | undefined;
  /** The mode before, where other accounts can no longer open the file. */
  readonly closedFrom: number | undefined;
}

/**
 * Replaces a file and keeps the old version beside it, readable by its owner only. The new version is too where it may
 * contain secrets that were added.
 */
export function replaceWithBackup(file: string, text: string, mayHoldSecrets: boolean): ReplacedFile {
  const real = resolveLink(file);
  if (!existsSync(real)) {
    writeAtomically(real, text, 0o600);
    return { backup: undefined, closedFrom: undefined };
  }
  const backup = `${real}.${timestamp()}.backup`;
  writeFileSync(backup, readFileSync(real), { mode: 0o600, flag: 'wx' });
  const mode = statSync(real).mode & 0o777;
  replaceContent(real, text, mayHoldSecrets ? mode & ownerModeMask : mode);
  return { backup, closedFrom: mayHoldSecrets ? modeBeforeClosing(mode) : undefined };
}

/** Replaces the content of a file. Its owner stays, also when root writes it, and its mode does whatever the umask is. */
function replaceContent(real: string, text: string, mode: number): void {
  const { uid, gid } = statSync(real);
  writeAtomically(real, text, mode, { uid, gid });
}

const ownerModeMask = 0o700;

function modeBeforeClosing(mode: number): number | undefined {
  return (mode & ownerModeMask) === mode ? undefined : mode;
}

export function findLatestBackup(file: string): string | undefined {
  const real = resolveLink(file);
  const name = basename(real);
  if (!existsSync(dirname(real))) return undefined;
  const backups = readdirSync(dirname(real))
    .filter((entry) => entry.startsWith(name) && backupSuffix.test(entry.slice(name.length)))
    // A link was not made here. It could lead to a file of another user.
    .filter((entry) => lstatSync(join(dirname(real), entry)).isFile())
    .sort();
  const youngest = backups.at(-1);
  return youngest === undefined ? undefined : join(dirname(real), youngest);
}

/** Reads a backup. A link is not followed. */
export function readBackup(backup: string): string {
  const descriptor = openSync(backup, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** Records that a file is new, so that undoing removes it. */
export function markCreated(file: string): void {
  writeFileSync(`${resolveLink(file)}.${timestamp()}.created`, '', { mode: 0o600, flag: 'wx' });
}

/** Whether the file did not exist before it was written, so that undoing removes it. */
export function wasCreated(backup: string): boolean {
  return backup.endsWith('.created');
}

/**
 * Puts a backup back, readable by its owner only as the backup was. The replaced version is kept beside it as
 * `….undone`. A file that did not exist before is removed.
 */
export function restoreBackup(file: string, backup: string): { undone: string; closedFrom: number | undefined } {
  const real = resolveLink(file);
  const mode = statSync(real).mode & 0o777;
  if (wasCreated(backup)) {
    const undone = `${real}.${timestamp()}.undone`;
    writeFileSync(undone, readFileSync(real), { mode: 0o600, flag: 'wx' });
    rmSync(real);
    rmSync(backup);
    return { undone, closedFrom: undefined };
  }
  const undone = replaceAndDropBackup(file, readBackup(backup), backup, mode & ownerModeMask);
  return { undone, closedFrom: modeBeforeClosing(mode) };
}

/**
 * Replaces a file whose backup is used up. The mode stays unless one is given. Returns where the replaced version is
 * kept.
 */
export function replaceAndDropBackup(file: string, text: string, backup: string | undefined, mode?: number): string {
  const real = resolveLink(file);
  const undone = `${real}.${timestamp()}.undone`;
  writeFileSync(undone, readFileSync(real), { mode: 0o600, flag: 'wx' });
  replaceContent(real, text, mode ?? statSync(real).mode & 0o777);
  if (backup !== undefined) rmSync(backup);
  return undone;
}
