import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { watchFile } from '../../lib/fs/if-present.ts';
import { claimDataDir, findExposureAbove } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import { toCanonicalJson } from '../../lib/json/canonical-json.ts';
import { type ApprovedTexts, createApprovedTexts } from './approved-texts.ts';
import { createFileHashes, type WantedSignal } from './file-hashes.ts';
import { findPinProblem, type PinOptions, type ToolPins } from './pinned-tools.ts';
import {
  type ApprovableServer,
  diffServerPins,
  diffToolPins,
  type FindFetchedPackage,
  findExposedPins,
  isSameServer,
  listApprovedHashes,
  locateServer,
  type PinChange,
  readPinsInPieces,
  readServerPins,
  type ServerPins,
  type ToolChange,
  withoutLatePackage,
} from './server-pins.ts';

const maxPlaces = 5;

/** The state of a server. An exposed one is unchanged, but another account could replace its files. */
type ApprovalVerdict =
  | { readonly state: 'approved' }
  | { readonly state: 'unapproved' | 'changed' | 'exposed'; readonly changes: readonly PinChange[] };

interface ApprovalView {
  readonly name: string;
  readonly approvedAt: string;
  /** The number of pinned tools; undefined until they have been listed. */
  readonly tools: number | undefined;
}

/** The approvals of servers that come from projects and other tools. */
export interface Approvals {
  /** Checks the files as they are now; cheap while nothing has changed. Servers of the operator are approved. */
  check(server: ApprovableServer): ApprovalVerdict;
  /** The same, reading changed files in pieces: for callers that nobody has to wait for. Not after an abort. */
  checkInPieces(server: ApprovableServer, signal?: WantedSignal): Promise<ApprovalVerdict>;
  /** Approves a server as it is, or as it was shown to the person who approved it. Tools are pinned again. */
  approve(server: ApprovableServer, shown?: ServerPins): Promise<void>;
  /**
   * The pins that an approval would have now. Files are read in pieces, between which other work goes on. Those of the
   * operator's servers are not read, because they need no approval. Once the signal is aborted, the pins are incomplete.
   */
  preview(server: ApprovableServer, signal?: WantedSignal): Promise<ServerPins>;
  /**
   * Pins the tools of an approved server, and keeps their texts. Existing pins stay, unless `replace` is set. Throws
   * SERVER_NOT_APPROVED when there are too many tools.
   */
  pinTools(server: ApprovableServer, tools: ToolPins, options?: PinOptions): Promise<void>;
  /** Lists the tools that differ from their pins; none while nothing is pinned. */
  toolsChanged(server: ApprovableServer, tools: ToolPins): ToolChange[];
  hasPinnedTools(name: string): boolean;
  /** Returns what was approved of a server; undefined if nothing was. */
  find(name: string): Pick<Approval, 'pinned' | 'tools'> | undefined;
  readonly texts: Pick<ApprovedTexts, 'read'>;
  revoke(name: string): Promise<boolean>;
  list(): ApprovalView[];
  /** Reports the servers whose approvals changed, within a second, also by another process. */
  onChange(listener: (names: readonly string[]) => void): () => void;
  /** Changes with each report of `onChange`. */
  revision(): number;
  close(): void;
}

interface ApprovalsOptions {
  readonly dataDir: string;
  /** The PATH of servers, for commands without a path. */
  readonly searchPath?: string | undefined;
  readonly fetchedPackage?: FindFetchedPackage;
}

export function createApprovals(options: ApprovalsOptions): Approvals {
  const { dataDir, searchPath = process.env['PATH'] } = options;
  const file = join(dataDir, 'approvals.json');
  const files = createFileHashes();
  const texts = createApprovedTexts(dataDir);
  const listeners = new Set<(names: readonly string[]) => void>();
  let stopWatching: (() => void) | undefined;
  let last: ApprovedServers = {};
  let revision = 0;

  const preview = async (server: ApprovableServer, signal?: WantedSignal) =>
    server.source === 'operator'
      ? locateServer(server, searchPath, options.fetchedPackage)
      : readPinsInPieces(server, files, searchPath, options.fetchedPackage, signal);

  /** Changes the file under its lock, so that approvals of other processes stay. */
  async function updateFile(alter: (servers: ApprovedServers) => ApprovedServers): Promise<void> {
    claimDataDir(dataDir);
    await withLock(file, () => {
      const read = readApprovals(file);
      if ('wrong' in read) {
        throw new AmbitError('CONFIG_INVALID', {
          what: `${file} cannot be trusted: ${read.wrong}. Its approvals are ignored.`,
          hint: 'Correct it if you know the reason. Otherwise remove the file and approve the servers again.',
        });
      }
      const altered = alter(read.servers);
      if (altered !== read.servers) writeApprovals(file, altered);
    });
    notifyChanges();
  }

  function notifyChanges(): void {
    if (listeners.size === 0) return;
    const now = readTrusted(file);
    const names = [...new Set([...Object.keys(last), ...Object.keys(now)])].filter(
      (name) => toCanonicalJson(last[name] ?? null) !== toCanonicalJson(now[name] ?? null),
    );
    last = now;
    if (names.length === 0) return;
    revision++;
    for (const listener of listeners) listener(names);
  }

  return {
    preview,

    check(server) {
      const basis = findBasis(file, server);
      if ('verdict' in basis) return basis.verdict;
      const read = files.reader(listApprovedHashes(basis.pinned));
      return judgePins(basis.pinned, readServerPins(server, read, searchPath, options.fetchedPackage));
    },

    async checkInPieces(server, signal) {
      const basis = findBasis(file, server);
      return 'verdict' in basis ? basis.verdict : judgePins(basis.pinned, await preview(server, signal));
    },

    async approve(server, given) {
      if (server.source === 'operator') return;
      const shown = given ?? (await preview(server));
      assertApprovable(server, shown);
      const approval = { approvedAt: new Date().toISOString(), pinned: shown };
      await updateFile((servers) => ({ ...servers, [server.name]: approval }));
    },

    async pinTools(server, tools, { replace, texts: shown } = { replace: false }) {
      if (server.source === 'operator') return;
      const refusal = findPinProblem(tools);
      if (refusal !== undefined) {
        throw new AmbitError('SERVER_NOT_APPROVED', {
          what: `The tools of the server "${server.name}" cannot be approved: ${refusal}.`,
          hint: 'Define the server in your own configuration, or use one with fewer tools.',
          rule: 'approval',
        });
      }
      let isPinned = false;
      await updateFile((servers) => {
        const approval = findApproval(servers, server.name);
        if (approval === undefined || (approval.tools !== undefined && !replace)) return servers;
        isPinned = true;
        return { ...servers, [server.name]: { ...approval, tools } };
      });
      if (isPinned) texts.keep(server, shown);
    },

    toolsChanged(server, tools) {
      if (server.source === 'operator') return [];
      const pinned = findApproval(readTrusted(file), server.name)?.tools;
      return pinned === undefined ? [] : diffToolPins(pinned, tools);
    },

    texts,
    find: (name) => findApproval(readTrusted(file), name),

    hasPinnedTools: (name) => findApproval(readTrusted(file), name)?.tools !== undefined,

    async revoke(name) {
      let known = false;
      await updateFile((servers) => {
        known = Object.hasOwn(servers, name);
        if (!known) return servers;
        const { [name]: _, ...rest } = servers;
        return rest;
      });
      texts.forget(name);
      return known;
    },

    list: () =>
      Object.entries(readTrusted(file)).map(([name, { approvedAt, tools }]) => ({
        name,
        approvedAt,
        tools: tools === undefined ? undefined : Object.keys(tools).length,
      })),

    onChange(listener) {
      if (stopWatching === undefined) {
        claimDataDir(dataDir);
        last = readTrusted(file);
        stopWatching = watchFile(file, notifyChanges);
      }
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },

    revision: () => revision,

    close() {
      stopWatching?.();
      stopWatching = undefined;
      listeners.clear();
    },
  };
}

function assertApprovable({ name }: ApprovableServer, pins: ServerPins): void {
  if (pins.kind === 'stdio' && 'missing' in pins.program) {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `The server "${name}" cannot be approved: ${pins.program.missing}.`,
      hint: 'Correct this, then approve the server again.',
    });
  }
  const exposed = findExposedPins(pins);
  if (exposed.length === 0) return;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what: `The server "${name}" cannot be approved, because another user could replace the program it runs: ${exposed.map(({ line }) => line).join('; ')}.`,
    hint: 'Remove write access for others ("chmod go-w", "chown"), move the files, or define the server in your own configuration.',
    rule: 'approval',
  });
}

function judgePins(approved: ServerPins, current: ServerPins): ApprovalVerdict {
  const now = withoutLatePackage(current, approved);
  const changes = diffServerPins(approved, now);
  // Only equal pins are approved, also where the diff shows no difference.
  if (changes.length > 0 || !isSameServer(approved, now)) return { state: 'changed', changes };
  const exposed = findExposedPins(now);
  return exposed.length === 0 ? { state: 'approved' } : { state: 'exposed', changes: exposed };
}

function findApproval(servers: ApprovedServers, name: string) {
  return Object.hasOwn(servers, name) ? servers[name] : undefined;
}

/**
 * Throws when a server is not approved as it is now. Call it before a link is made, and before each start of a process.
 * The message may reach a model, so it names places but no values.
 */
export function assertApproved(approvals: Approvals, server: ApprovableServer): void {
  const verdict = approvals.check(server);
  if (verdict.state === 'approved') return;
  const places = [...new Set(verdict.changes.map(({ place }) => place))];
  const more = places.length > maxPlaces ? `, and ${places.length - maxPlaces} more` : '';
  const named = places.length === 0 ? '' : ` (${places.slice(0, maxPlaces).join(', ')}${more})`;
  if (verdict.state === 'exposed') {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `The server "${server.name}" is not started: another user could replace the program it runs${named}.`,
      hint: `The operator can see the details with "ambit server check ${server.name}" and remove that write access.`,
      rule: 'approval',
    });
  }
  const what =
    verdict.state === 'changed'
      ? `The server "${server.name}" has changed since it was approved${named}, so it is not started.`
      : `The server "${server.name}" comes from ${server.source === 'imported' ? 'an imported' : 'a project'} file and has not been approved${named}.`;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what,
    hint: `The operator can review and approve it with "ambit server approve ${server.name}".`,
    rule: 'approval',
  });
}

interface Approval {
  readonly approvedAt: string;
  readonly pinned: ServerPins;
  /** Set when the tools are listed for the first time after the approval. */
  readonly tools?: ToolPins | undefined;
}

type ApprovedServers = Readonly<Record<string, Approval>>;

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
function readApprovals(file: string): ApprovalsFileContent {
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
function writeApprovals(file: string, servers: ApprovedServers): void {
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

/** The approval that a server must agree with, or the verdict if nothing of the server decides it. */
function findBasis(
  file: string,
  server: ApprovableServer,
): { readonly pinned: ServerPins } | { readonly verdict: ApprovalVerdict } {
  if (server.source === 'operator') return { verdict: { state: 'approved' } };
  const read = readApprovals(file);
  if ('wrong' in read) {
    const line = `approvals.json: ${read.wrong}; all approvals are ignored`;
    return { verdict: { state: 'unapproved', changes: [{ place: 'approvals.json', line }] } };
  }
  const approval = findApproval(read.servers, server.name);
  return approval ?? { verdict: { state: 'unapproved', changes: [] } };
}

/** Reads the file each time and trusts no copy: a start is rare, and the file is small. */
function readTrusted(file: string): ApprovedServers {
  const read = readApprovals(file);
  return 'wrong' in read ? {} : read.servers;
}
