import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { hostname } from 'node:os';
import { type Handle, pathAt } from './platform/platform-fs.ts';
import { SafeRootError } from './saferoot-error.ts';

/**
 * Names of files that are being written, until they get their place. They say who writes: digits of the machine and
 * its numbering of processes, six of the process, the rest by chance. So what a killed process left can be told from
 * what another one is still writing.
 */
const namePattern = /^\.ambit-([0-9a-f]{6})([0-9a-f]{6})[0-9a-f]{16}\.tmp$/;

const activeNames = new Set<string>();

let machineId: string | undefined;

/** Whoever writes elsewhere cannot be asked. No write takes as long as this. */
const maxWriteMs = 600_000;

const bootFile = '/proc/sys/kernel/random/boot_id';

export type FileContent = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface TemporaryWriteOptions {
  readonly mode: number;
  readonly maxBytes?: number | undefined;
  readonly sync?: boolean | undefined;
  /** Before the file gets its place: what the old one had. */
  readonly applyAttributes?: (descriptor: number) => void;
}

/**
 * Writes a whole file beside its place, and gives `settle` its name to move it there at once. Whatever fails, the
 * file is gone afterwards.
 */
export async function writeTemporary<T>(
  folder: Handle,
  content: FileContent,
  options: TemporaryWriteOptions,
  moveIntoPlace: (temporary: string) => T,
): Promise<T> {
  const name = createTemporaryName();
  const temporary = pathAt(folder, name);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    if (isSmall(content) && !options.sync) writeSmall(temporary, flags, content, options);
    else await writeLarge(temporary, flags, content, options);
    const result = moveIntoPlace(temporary);
    if (options.sync) syncFolder(folder);
    return result;
  } finally {
    removeIfPresent(temporary);
    releaseTemporaryName(name);
  }
}

async function writeLarge(
  path: string,
  flags: number,
  content: FileContent,
  options: TemporaryWriteOptions,
): Promise<void> {
  const file = await open(path, flags, options.mode & 0o777);
  try {
    await writeContent(file, content, options.maxBytes);
    options.applyAttributes?.(file.fd);
    if (options.sync) await file.sync();
  } finally {
    await file.close();
  }
}

/** So much is written at once, where a way through other threads would take longer than the writing. */
const maxSmallBytes = 65_536;

function isSmall(content: FileContent): content is string | Uint8Array {
  return (typeof content === 'string' || content instanceof Uint8Array) && content.length <= maxSmallBytes;
}

function writeSmall(path: string, flags: number, content: string | Uint8Array, options: TemporaryWriteOptions): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  assertSize(bytes.length, options.maxBytes);
  const descriptor = openSync(path, flags, options.mode & 0o777);
  try {
    for (let offset = 0; offset < bytes.length; ) offset += writeSync(descriptor, bytes, offset);
    options.applyAttributes?.(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function removeIfPresent(path: string): void {
  try {
    // Most often it has been moved to its place, and to be told so by an error takes much longer than to look.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) unlinkSync(path);
  } catch {
    // Taken away by someone else meanwhile.
  }
}

function syncFolder(folder: Handle): void {
  const descriptor = openSync(folder.path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } catch {
    // Some file systems cannot; the file itself is whole either way.
  } finally {
    closeSync(descriptor);
  }
}

/** Writes content into a file that is still empty; more than allowed ends it. */
async function writeContent(file: FileHandle, content: FileContent, maxBytes: number | undefined): Promise<void> {
  const pieces = typeof content === 'string' ? Buffer.from(content) : content;
  let total = 0;
  for await (const piece of pieces instanceof Uint8Array ? [pieces] : pieces) {
    total += piece.length;
    assertSize(total, maxBytes);
    await writeAll(file, piece);
  }
}

export function assertSize(bytes: number, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && bytes > maxBytes) {
    throw new SafeRootError('TOO_LARGE', { what: 'would become larger than was allowed' });
  }
}

export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let offset = 0; offset < bytes.length; ) offset += (await file.write(bytes, offset)).bytesWritten;
}

/** True for a name a write in progress uses, or one that was killed has left behind. */
export function isTemporaryName(name: string): boolean {
  return namePattern.test(name);
}

export function createTemporaryName(): string {
  const writer = process.pid.toString(16).padStart(6, '0').slice(-6);
  const name = `.ambit-${readMachineId()}${writer}${randomBytes(8).toString('hex')}.tmp`;
  activeNames.add(name);
  return name;
}

export function releaseTemporaryName(name: string): void {
  activeNames.delete(name);
}

/** Whether nobody is going to move such a file to its place any more. */
export function isLeftOver(name: string, modifiedMs: number): boolean {
  const [, machine, writer] = namePattern.exec(name) ?? [];
  if (machine === undefined || writer === undefined || activeNames.has(name)) return false;
  if (Date.now() - modifiedMs > maxWriteMs) return true;
  const writerId = Number.parseInt(writer, 16);
  return machine === readMachineId() && (writerId === process.pid || !isProcessAlive(writerId));
}

function isProcessAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** The same number means the same process only on one machine, since it was started, in one container. */
function readMachineId(): string {
  machineId ??= createHash('sha256')
    .update(
      [
        hostname(),
        readOrEmpty(() => readFileSync(bootFile, 'latin1')),
        readOrEmpty(() => readlinkSync('/proc/self/ns/pid')),
      ].join(),
    )
    .digest('hex')
    .slice(0, 6);
  return machineId;
}

function readOrEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
