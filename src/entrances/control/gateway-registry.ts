import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { locateRegistryFolders, type RegistryFolder } from '../../config/load/locate.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { findExposureAbove } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { openSocketHandle } from './socket-path.ts';

/** A gateway that `ambit serve` has started, as its entry in the registry says. */
export interface GatewayEntry {
  readonly configFile: string;
  readonly dataDir: string;
  readonly socket: string;
  readonly pid: number;
  /** The start of the process in clock ticks since boot; null on systems without /proc. */
  readonly processStart: number | null;
  readonly startedAt: string;
  /** The address at which it listens; undefined in entries of older versions. */
  readonly url?: string | undefined;
}

export interface Registration {
  /** The folder of the entry; undefined if there is none. */
  readonly folder: string | undefined;
  /** The reason for each folder that was not used. */
  readonly problems: readonly string[];
  remove(): void;
}

interface RegistryPlaces {
  readonly env: NodeJS.ProcessEnv;
  readonly home: string;
}

type NewEntry = Pick<GatewayEntry, 'configFile' | 'dataDir' | 'socket' | 'url'>;

interface FoundEntry {
  readonly file: string;
  readonly inode: number;
  /** Undefined if the file is no entry. */
  readonly entry: GatewayEntry | undefined;
}

const maxEntryBytes = 16 * 1024;
const entryName = /^[0-9a-f]{16}\.json$/;
/** Entries of gateways that are not ready yet. A gateway that is ready keeps its own entry beside them. */
const startingName = /^[0-9a-f]{16}\.[0-9]+\.starting\.json$/;
const leftoverName = /^[0-9a-f]{16}\.json\.[0-9]+\.[0-9a-f]+\.tmp$/;
const leftoverMs = 60_000;
/** Zombie and dead, as /proc says it. */
const endedStates = new Set(['Z', 'X']);
const byOthers = 0o022;
const byAll = 0o002;
/** A runtime folder is emptied when the user logs out, and a gateway may go on running after that. */
const renewMs = 10_000;

/** Lists the gateways of this user that are running. Only those count whose process and control socket are there. */
export async function listRunningGateways(places: RegistryPlaces): Promise<GatewayEntry[]> {
  const found = listGatewayProcesses(places);
  const answering = await Promise.all(found.map(({ socket }) => isSocketAnswering(socket)));
  const running = found.filter((_, i) => answering[i]);
  return [...new Map(running.map((entry) => [`${entry.pid} ${entry.dataDir}`, entry])).values()];
}

/** Lists the gateways of this user whose process is there, also those whose control socket does not answer. */
export function listGatewayProcesses(places: RegistryPlaces): GatewayEntry[] {
  return locateRegistryFolders(places)
    .filter(({ path }) => findDistrust(path) === undefined)
    .flatMap(({ path }) => readEntries(path))
    .flatMap(({ entry }) => (entry !== undefined && isProcessRunning(entry) ? [entry] : []));
}

/** Lists the gateways of this user that are starting. Without /proc they cannot be told from killed ones: none then. */
export function listStartingGateways(places: RegistryPlaces): GatewayEntry[] {
  return locateRegistryFolders(places)
    .filter(({ path }) => findDistrust(path) === undefined)
    .flatMap(({ path }) => readEntries(path, startingName))
    .flatMap(({ entry }) => (entry !== undefined && entry.processStart !== null ? [entry] : []))
    .filter((entry) => isProcessRunning(entry));
}

/**
 * Lists this process as a gateway that is starting, so that commands wait for it. Returns a function that removes the
 * entry again.
 */
export function announceStart(gateway: NewEntry, places: RegistryPlaces): () => void {
  const own = createOwnEntry(gateway);
  for (const folder of locateRegistryFolders(places)) {
    try {
      prepareFolder(folder);
      const file = join(folder.path, `${hashDataDir(own.dataDir)}.${own.pid}.starting.json`);
      writeAtomically(file, `${JSON.stringify(own)}\n`);
      return () => rmSync(file, { force: true });
    } catch {
      // The gateway starts all the same. When it is ready, it says why it cannot be listed.
    }
  }
  return () => {};
}

/**
 * Lists a gateway whose control socket is listening, and removes entries of gateways that were killed. A gateway that
 * cannot be listed works all the same, so nothing is thrown.
 */
export async function registerGateway(
  gateway: NewEntry,
  places: RegistryPlaces,
  renewEveryMs = renewMs,
): Promise<Registration> {
  const own = createOwnEntry(gateway);
  const problems: string[] = [];
  for (const folder of locateRegistryFolders(places)) {
    try {
      prepareFolder(folder);
      const file = await writeEntry(folder.path, own);
      const renewing = setInterval(() => renewEntry(folder, file, own), renewEveryMs).unref();
      const remove = () => {
        clearInterval(renewing);
        removeOwnEntry(file, own);
      };
      return { folder: folder.path, problems, remove };
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  return { folder: undefined, problems, remove() {} };
}

function createOwnEntry({ configFile, dataDir, socket, url }: NewEntry): GatewayEntry {
  const { pid } = process;
  const startedAt = new Date().toISOString();
  return { configFile, dataDir, socket, url, pid, processStart: readProcessStart(pid) ?? null, startedAt };
}

function prepareFolder({ path, base }: RegistryFolder): void {
  if (!statSync(base).isDirectory()) throw new Error(`${base} is not a folder`);
  const exposed = findExposureAbove(path);
  if (exposed !== undefined) throw new Error(exposed);
  // The runtime folder itself must be private, since only its owner and mode tell it from a shared temporary folder.
  const distrust = dirname(path) === base ? findParentDistrust(path) : undefined;
  if (distrust !== undefined) throw new Error(distrust);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const wrong = findDistrust(path);
  if (wrong !== undefined) throw new Error(wrong);
  chmodSync(path, 0o700);
}

/** Says why entries in a folder are not believed: others could have written them. Undefined if they are. */
function findDistrust(folder: string): string | undefined {
  try {
    const exposed = findExposureAbove(folder) ?? findParentDistrust(folder);
    if (exposed !== undefined) return exposed;
    const stats = lstatSync(folder);
    if (!stats.isDirectory()) return `${folder} is not a folder`;
    if (!isOwnUser(stats.uid)) return `${folder} belongs to another user`;
    return (stats.mode & byOthers) === 0 ? undefined : `other users can write to ${folder}`;
  } catch (error) {
    return (error as Error).message;
  }
}

function findParentDistrust(folder: string): string | undefined {
  const parent = dirname(folder);
  const { uid, mode } = statSync(parent);
  if (!isOwnUser(uid)) return `${parent} belongs to another user`;
  return (mode & byAll) === 0 ? undefined : `other users can write to ${parent}`;
}

function isOwnUser(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid();
}

function readEntries(folder: string, names = entryName): FoundEntry[] {
  return readdirSync(folder)
    .filter((name) => names.test(name))
    .flatMap((name) => readEntry(join(folder, name)) ?? []);
}

/** Reads a plain file of this user. Anything else, such as a link or a pipe, is not opened for good. */
function readEntry(file: string): FoundEntry | undefined {
  try {
    const descriptor = openSync(file, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
    try {
      const { uid, mode, size, ino } = fstatSync(descriptor);
      const isPlain = fstatSync(descriptor).isFile() && isOwnUser(uid) && (mode & byOthers) === 0;
      if (!isPlain) return undefined;
      const entry = size > maxEntryBytes ? undefined : parseEntry(readFileSync(descriptor, 'utf8'));
      return { file, inode: ino, entry };
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return undefined;
  }
}

function parseEntry(text: string): GatewayEntry | undefined {
  let value: Partial<Record<keyof GatewayEntry, unknown>> | null;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { configFile, dataDir, socket, pid, processStart, startedAt, url } = value;
  if (!isPath(configFile) || !isPath(dataDir) || !isPath(socket)) return undefined;
  if (!Number.isSafeInteger(pid) || (pid as number) <= 0) return undefined;
  if (processStart !== null && !Number.isSafeInteger(processStart)) return undefined;
  if (typeof startedAt !== 'string' || Number.isNaN(Date.parse(startedAt))) return undefined;
  const ids = { pid: pid as number, processStart: processStart as number | null };
  return { configFile, dataDir, socket, ...ids, startedAt, url: typeof url === 'string' ? url : undefined };
}

function isPath(value: unknown): value is string {
  return typeof value === 'string' && isAbsolute(value) && !value.includes('\0');
}

/** Whether the process that wrote the entry still runs. Its number may belong to another process by now. */
export function isProcessRunning({ pid, processStart }: Pick<GatewayEntry, 'pid' | 'processStart'>): boolean {
  // Without /proc only the socket can tell.
  if (processStart === null || readProcessStart(process.pid) === undefined) return true;
  return readProcessStart(pid) === processStart;
}

/**
 * Reads the start of a process in clock ticks since boot; undefined without /proc, without such a process, and for one
 * that has ended and waits for its parent.
 */
export function readProcessStart(pid: number): number | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The command name is in parentheses and may itself contain spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    const start = Number(fields[19]);
    return Number.isSafeInteger(start) && !endedStates.has(fields[0] ?? '') ? start : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a gateway of this user listens on a control socket. */
export async function isSocketAnswering(socket: string): Promise<boolean> {
  // Loaded late: most commands find no entry.
  const { connect } = await import('node:net');
  let handle: ReturnType<typeof openSocketHandle>;
  try {
    handle = openSocketHandle(socket);
  } catch {
    return false;
  }
  try {
    const stats = lstatSync(handle.path, { throwIfNoEntry: false });
    if (stats === undefined || !stats.isSocket() || !isOwnUser(stats.uid)) return false;
    return await new Promise<boolean>((resolve) => {
      const probe = connect(handle.path, () => {
        probe.destroy();
        resolve(true);
      });
      // A gateway that is too busy to take a connection is there all the same.
      probe.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'EAGAIN'));
    });
  } finally {
    handle.release();
  }
}

/** Writes the entry of this process, and removes those of gateways that are gone. One gateway does so at a time. */
async function writeEntry(folder: string, own: GatewayEntry): Promise<string> {
  const file = join(folder, `${hashDataDir(own.dataDir)}.json`);
  const found = readEntries(folder);
  const answering = await Promise.all(found.map(({ entry }) => entry !== undefined && isSocketAnswering(entry.socket)));
  const stale = found.filter((_, i) => !answering[i]);
  await withLock(join(folder, 'registry'), () => {
    for (const each of stale) {
      // Another gateway may have replaced it by its own meanwhile.
      if (lstatSync(each.file, { throwIfNoEntry: false })?.ino === each.inode) rmSync(each.file, { force: true });
    }
    removeLeftovers(folder);
    writeAtomically(file, `${JSON.stringify(own)}\n`);
  });
  return file;
}

function hashDataDir(dataDir: string): string {
  return createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
}

/** Removes half-written entries of killed processes, and those of gateways that were killed while they started. */
function removeLeftovers(folder: string): void {
  for (const { file, entry } of readEntries(folder, startingName)) {
    if (entry === undefined || !isProcessRunning(entry)) rmSync(file, { force: true });
  }
  for (const name of readdirSync(folder).filter((each) => leftoverName.test(each))) {
    const stats = lstatSync(join(folder, name), { throwIfNoEntry: false });
    if (stats?.isFile() && Date.now() - stats.mtimeMs > leftoverMs) rmSync(join(folder, name), { force: true });
  }
}

/** Writes the entry again if it was removed. */
function renewEntry(folder: RegistryFolder, file: string, own: GatewayEntry): void {
  try {
    if (lstatSync(file, { throwIfNoEntry: false }) !== undefined) return;
    prepareFolder(folder);
    writeAtomically(file, `${JSON.stringify(own)}\n`);
  } catch {
    // The folder is not there: it is tried again.
  }
}

/** Removes the entry, unless another gateway on the same data directory has replaced it by its own. */
function removeOwnEntry(file: string, { pid, startedAt }: GatewayEntry): void {
  const entry = readEntry(file)?.entry;
  if (entry?.pid === pid && entry.startedAt === startedAt) rmSync(file, { force: true });
}
