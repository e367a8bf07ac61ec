import {
  closeSync,
  constants,
  type FSWatcher,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  statSync,
  watch,
} from 'node:fs';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import { findExposureAbove } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { ToolPins } from './pinned-tools.ts';
import type { ServerPins } from './server-pins.ts';

const pollMs = 400;

interface Approval {
  readonly approvedAt: string;
  readonly pinned: ServerPins;
  /** Set when the tools are listed for the first time after the approval. */
  readonly tools?: ToolPins | undefined;
}

export type ApprovedServers = Readonly<Record<string, Approval>>;

/** The content of the file, or the reason why it is not trusted. */
type ApprovalsFileContent = { readonly servers: ApprovedServers } | { readonly wrong: string };

const hashes = z.record(z.string(), z.string());
const filePin = z.strictObject({ path: z.string(), real: z.string(), sha256: z.string().optional() });
const pinned = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('stdio'),
    folder: z.string(),
    command: z.string(),
    program: z.union([filePin, z.strictObject({ missing: z.string() })]),
    args: z.array(z.string()),
    env: hashes,
    files: z.array(filePin),
    package: z.strictObject({ name: z.string(), version: z.string(), integrity: z.string() }).optional(),
  }),
  z.strictObject({ kind: z.literal('http'), folder: z.string(), url: z.string(), headers: hashes }),
]);
/** A tool has one set of hashes, or a list where it has several definitions. */
const toolPin = z.union([hashes, z.array(hashes).min(1)]);
const shape = z.strictObject({
  version: z.literal(1),
  servers: z.record(
    z.string(),
    z.strictObject({ approvedAt: z.string(), pinned, tools: z.record(z.string(), toolPin).optional() }),
  ),
});

const maxBytes = 64 << 20;

/** Reads the approvals. A file that others could have written, or that is not complete, approves nothing. */
export function readApprovals(file: string): ApprovalsFileContent {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return { servers: {} };
    return { wrong: code === 'ELOOP' ? 'it is a symbolic link' : `it cannot be read (${code})` };
  }
  try {
    const exposed = findFileExposure(fstatSync(descriptor), file);
    if (exposed !== undefined) return { wrong: exposed };
    const read = shape.safeParse(JSON.parse(readFileSync(descriptor, 'utf8')));
    return read.success
      ? { servers: read.data.servers as ApprovedServers }
      : { wrong: 'it does not have the expected form' };
  } catch {
    return { wrong: 'it is not valid JSON' };
  } finally {
    closeSync(descriptor);
  }
}

type FileStat = { isFile(): boolean; readonly uid: number; readonly mode: number; readonly size: number };

function findFileExposure(stat: FileStat, file: string): string | undefined {
  if (!stat.isFile() || stat.size > maxBytes) return 'it is not a regular file';
  const uid = process.getuid?.();
  if (uid !== undefined && stat.uid !== uid) return 'it belongs to another user';
  if ((stat.mode & 0o077) !== 0) {
    return `other users may open it (mode ${(stat.mode & 0o777).toString(8).padStart(4, '0')} instead of 0600)`;
  }
  const folder = lstatSync(dirname(file));
  const foreign = uid !== undefined && folder.uid !== uid && folder.uid !== 0;
  if (foreign || (folder.mode & 0o022) !== 0) return 'other users may write to its folder';
  return findExposureAbove(dirname(file));
}

/** Writes the approvals. Refuses a file too long to be read again, since one server would revoke all others. */
export function writeApprovals(file: string, servers: ApprovedServers): void {
  const text = `${JSON.stringify({ version: 1, servers }, undefined, 1)}\n`;
  if (Buffer.byteLength(text) > maxBytes) {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `${basename(file)} would be longer than ${maxBytes >> 20} MB, so nothing was written.`,
      hint: 'Include fewer servers, or define some of them in your own configuration.',
      rule: 'approval',
    });
  }
  writeAtomically(file, text, 0o600);
}

/** Watches a file and calls the listener within a second of every change, by polling where needed. */
export function watchFile(file: string, listener: () => void): () => void {
  let seen = fileStamp(file);
  const look = (): void => {
    const now = fileStamp(file);
    if (now === seen) return;
    seen = now;
    listener();
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(dirname(file), { persistent: false }, (_, name) => {
      if (name === null || name === basename(file)) look();
    });
    watcher.on('error', () => watcher?.close());
  } catch {
    // Not every file system can be watched. Polling is enough.
  }
  const timer = setInterval(look, pollMs).unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function fileStamp(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? '' : `${stat.dev} ${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.mode}`;
}
