import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { takeDataDir } from '../../lib/fs/private-files.ts';
import { canonicalJson } from '../../lib/json/canonical-json.ts';
import { type ApprovedServers, readApprovals, watchFile, writeApprovals } from './approvals-file.ts';
import { createFileHashes } from './file-hashes.ts';
import { diffServerPins, diffToolPins, findExposedPins, type PinChange, type ToolChange } from './pin-diff.ts';
import { findPinProblem, type ToolPins } from './pinned-tools.ts';
import { type ApprovableServer, type FetchedPackage, type Pinned, readServerPins } from './server-pins.ts';

const maxPlaces = 5;

/** Exposed is what is as it was approved, but could be exchanged by another account before it runs. */
export type ApprovalVerdict =
  | { readonly state: 'approved' }
  | { readonly state: 'unapproved' | 'changed' | 'exposed'; readonly changes: readonly PinChange[] };

export interface ApprovalView {
  readonly name: string;
  readonly approvedAt: string;
  /** How many tools are pinned; undefined until they have been listed. */
  readonly tools: number | undefined;
}

/** Which servers of projects and of other tools may start, and as what. */
export interface Approvals {
  /** Looks at the files as they are now; cheap while nothing has changed. What the operator wrote is approved. */
  check(server: ApprovableServer): ApprovalVerdict;
  /** Approves a server as it stands, or as it was shown to whoever said yes. Tools are pinned anew. */
  approve(server: ApprovableServer, shown?: Pinned): Promise<void>;
  /** What would be pinned now. */
  preview(server: ApprovableServer): Pinned;
  /**
   * Pins the tools of an approved server. Those that are pinned already stay, unless they are to be replaced. Throws
   * SERVER_NOT_APPROVED when there are too many.
   */
  pinTools(server: ApprovableServer, tools: ToolPins, options?: { readonly replace: boolean }): Promise<void>;
  /** The tools that differ from the pinned ones; none while nothing is pinned. */
  toolsChanged(server: ApprovableServer, tools: ToolPins): ToolChange[];
  hasPinnedTools(name: string): boolean;
  revoke(name: string): Promise<boolean>;
  list(): ApprovalView[];
  /** Tells which servers' approvals changed, within a second, whichever process changed them. */
  onChange(listener: (names: readonly string[]) => void): () => void;
  /** Another number each time that `onChange` has told of something. */
  revision(): number;
  close(): void;
}

export interface ApprovalsOptions {
  readonly dataDir: string;
  /** Where bare commands are looked up; the PATH that servers get. */
  readonly searchPath?: string | undefined;
  readonly fetchedPackage?: FetchedPackage;
}

export function createApprovals(options: ApprovalsOptions): Approvals {
  const { dataDir, searchPath = process.env['PATH'] } = options;
  const file = join(dataDir, 'approvals.json');
  const files = createFileHashes();
  const listeners = new Set<(names: readonly string[]) => void>();
  let stopWatching: (() => void) | undefined;
  let last: ApprovedServers = {};
  let revision = 0;

  const preview = (server: ApprovableServer): Pinned =>
    readServerPins(server, files, searchPath, options.fetchedPackage);

  /** Never trusts a copy in memory: a start is rare, and the file is small. */
  function readTrusted(): ApprovedServers {
    const read = readApprovals(file);
    return 'wrong' in read ? {} : read.servers;
  }

  /** Reads again under the lock, so that what others approved meanwhile stays. */
  async function updateFile(alter: (servers: ApprovedServers) => ApprovedServers): Promise<void> {
    takeDataDir(dataDir);
    await withLock(file, () => {
      const read = readApprovals(file);
      if ('wrong' in read) {
        throw new AmbitError('CONFIG_INVALID', {
          what: `${file} cannot be believed: ${read.wrong}. Nothing in it counts as approved.`,
          hint: 'Correct that if you know how it came about; else remove the file and approve the servers again.',
        });
      }
      const altered = alter(read.servers);
      if (altered !== read.servers) writeApprovals(file, altered);
    });
    notifyChanges();
  }

  function notifyChanges(): void {
    if (listeners.size === 0) return;
    const now = readTrusted();
    const names = [...new Set([...Object.keys(last), ...Object.keys(now)])].filter(
      (name) => canonicalJson(last[name] ?? null) !== canonicalJson(now[name] ?? null),
    );
    last = now;
    if (names.length === 0) return;
    revision++;
    for (const listener of listeners) listener(names);
  }

  return {
    preview,

    check(server) {
      if (server.source === 'operator') return { state: 'approved' };
      const read = readApprovals(file);
      if ('wrong' in read) {
        const place = 'approvals.json';
        return {
          state: 'unapproved',
          changes: [{ place, line: `${place}: ${read.wrong}; nothing counts as approved` }],
        };
      }
      const approval = findApproval(read.servers, server.name);
      if (approval === undefined) return { state: 'unapproved', changes: [] };
      const now = withoutLatePackage(preview(server), approval.pinned);
      const changes = diffServerPins(approval.pinned, now);
      // Whatever the words leave out, only equal pins are approved.
      if (changes.length > 0 || !isSameServer(approval.pinned, now)) return { state: 'changed', changes };
      const exposed = findExposedPins(now);
      return exposed.length === 0 ? { state: 'approved' } : { state: 'exposed', changes: exposed };
    },

    async approve(server, shown = preview(server)) {
      if (server.source === 'operator') return;
      assertApprovable(server, shown);
      const approval = { approvedAt: new Date().toISOString(), pinned: shown };
      await updateFile((servers) => ({ ...servers, [server.name]: approval }));
    },

    async pinTools(server, tools, { replace } = { replace: false }) {
      if (server.source === 'operator') return;
      const refusal = findPinProblem(tools);
      if (refusal !== undefined) {
        throw new AmbitError('SERVER_NOT_APPROVED', {
          what: `The tools of the server "${server.name}" cannot be approved: ${refusal}.`,
          hint: 'Describe the server in your own configuration, or use one with fewer tools.',
          rule: 'approval',
        });
      }
      await updateFile((servers) => {
        const approval = findApproval(servers, server.name);
        if (approval === undefined || (approval.tools !== undefined && !replace)) return servers;
        return { ...servers, [server.name]: { ...approval, tools } };
      });
    },

    toolsChanged(server, tools) {
      if (server.source === 'operator') return [];
      const pinned = findApproval(readTrusted(), server.name)?.tools;
      return pinned === undefined ? [] : diffToolPins(pinned, tools);
    },

    hasPinnedTools: (name) => findApproval(readTrusted(), name)?.tools !== undefined,

    async revoke(name) {
      let known = false;
      await updateFile((servers) => {
        known = Object.hasOwn(servers, name);
        if (!known) return servers;
        const { [name]: _, ...rest } = servers;
        return rest;
      });
      return known;
    },

    list: () =>
      Object.entries(readTrusted()).map(([name, { approvedAt, tools }]) => ({
        name,
        approvedAt,
        tools: tools === undefined ? undefined : Object.keys(tools).length,
      })),

    onChange(listener) {
      if (stopWatching === undefined) {
        takeDataDir(dataDir);
        last = readTrusted();
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

function assertApprovable({ name }: ApprovableServer, pins: Pinned): void {
  if (pins.kind === 'stdio' && 'missing' in pins.program) {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `The server "${name}" cannot be approved: ${pins.program.missing}.`,
      hint: 'Correct that, then approve it again.',
    });
  }
  const exposed = findExposedPins(pins);
  if (exposed.length === 0) return;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what: `The server "${name}" cannot be approved, since another account could exchange what it runs: ${exposed.map(({ line }) => line).join('; ')}.`,
    hint: 'Take the right to write away from others ("chmod go-w", "chown"), move the files, or describe the server in your own configuration.',
    rule: 'approval',
  });
}

function findApproval(servers: ApprovedServers, name: string) {
  return Object.hasOwn(servers, name) ? servers[name] : undefined;
}

/** A package that was fetched only after the approval was pinned by that, and is held to nothing here. */
function withoutLatePackage(now: Pinned, approved: Pinned): Pinned {
  if (now.kind !== 'stdio' || (approved.kind === 'stdio' && approved.package !== undefined)) return now;
  const { package: _, ...rest } = now;
  return rest;
}

/** Where the file lies may change; what runs may not. */
function isSameServer(approved: Pinned, now: Pinned): boolean {
  return canonicalJson({ ...approved, folder: '' }) === canonicalJson({ ...now, folder: '' });
}

/**
 * Refuses a server that is not approved as it stands now. To be called before a link to it is made, and again just
 * before each start of its process. The message may reach a model: it names places, never values.
 */
export function assertApproved(approvals: Approvals, server: ApprovableServer): void {
  const verdict = approvals.check(server);
  if (verdict.state === 'approved') return;
  const places = [...new Set(verdict.changes.map(({ place }) => place))];
  const more = places.length > maxPlaces ? `, and ${places.length - maxPlaces} more` : '';
  const named = places.length === 0 ? '' : ` (${places.slice(0, maxPlaces).join(', ')}${more})`;
  if (verdict.state === 'exposed') {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `The server "${server.name}" is not started: another account could exchange what it runs${named}.`,
      hint: `The operator can see how with "ambit server check ${server.name}", and take away the right to write there.`,
      rule: 'approval',
    });
  }
  const what =
    verdict.state === 'changed'
      ? `The server "${server.name}" has changed since it was approved${named}, so it is not started.`
      : `The server "${server.name}" comes from a ${server.source} file and has not been approved${named}.`;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what,
    hint: `The operator can look at it and approve it with "ambit server approve ${server.name}".`,
    rule: 'approval',
  });
}
