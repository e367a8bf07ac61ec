import { existsSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { isInside } from '../../config/load/resolve-symlinks.ts';
import { findExposure } from '../../lib/fs/private-files.ts';
import { hashValues, sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { HttpServer, StdioServer } from '../definition.ts';
import { type FileHashes, type HashFile, isScript, maxPinnedBytes, type WantedSignal } from './file-hashes.ts';
import {
  findArgFiles,
  findCodeOption,
  findStartedLanguages,
  findValueFiles,
  isDataFile,
  isFolder,
  locateProgram,
  tooManyFiles,
} from './named-files.ts';
import { listVariants, type ToolPin, type ToolPins } from './pinned-tools.ts';

type StdioVariant<T> = Extract<T, { kind: 'stdio' }>;

/** The part of a server that an approval needs. */
export type ApprovableServer =
  | Pick<StdioServer, 'name' | 'source' | 'folder' | 'kind' | 'command' | 'args' | 'env'>
  | Pick<HttpServer, 'name' | 'source' | 'folder' | 'kind' | 'url' | 'headers'>;

interface FilePin {
  /** The path as the command line names it. */
  readonly path: string;
  /** The path after links are followed. */
  readonly real: string;
  /** Left out for programs of the system. */
  readonly sha256?: string;
}

/** A package that the command names, as it was fetched. */
export interface FetchedPackagePin {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

/** Finds the fetched package of a command; undefined where there is none. */
export type FindFetchedPackage = (command: string, args: readonly string[]) => FetchedPackagePin | undefined;

/** Everything that decides what runs, or which address is called, when a server is used. */
export type ServerPins =
  | {
      readonly kind: 'stdio';
      readonly folder: string;
      readonly command: string;
      readonly program: FilePin | { readonly missing: string };
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly files: readonly FilePin[];
      readonly package?: FetchedPackagePin | undefined;
    }
  | {
      readonly kind: 'http';
      readonly folder: string;
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
    };

/** Finds what a server starts or calls, without reading a file: for servers that need no approval. */
export function locateServer(
  server: ApprovableServer,
  searchPath: string | undefined,
  fetched?: FindFetchedPackage,
): ServerPins {
  if (server.kind === 'http') return readHttpPins(server);
  const { folder, command, args, env } = server;
  const named = fetched?.(command, args);
  return {
    ...{ kind: 'stdio', folder, command, args: [...args], env: hashValues(env), files: [] },
    program: locateProgram(command, searchPath),
    ...(named === undefined ? {} : { package: named }),
  };
}

function readHttpPins({ folder, url, headers }: Extract<ApprovableServer, { kind: 'http' }>): ServerPins {
  return { kind: 'http', folder, url: url.href, headers: hashValues(headers) };
}

/** Reads the pins of a server as it is now. Its files are read in pieces, between which other work goes on. */
export async function readPinsInPieces(
  server: ApprovableServer,
  files: FileHashes,
  searchPath: string | undefined,
  fetched?: FindFetchedPackage,
  signal?: WantedSignal,
): Promise<ServerPins> {
  const paths: string[] = [];
  readServerPins(server, (path) => void paths.push(path), searchPath);
  return readServerPins(server, await files.readInPieces(paths, signal), searchPath, fetched);
}

/** Reads the pins of a server as it is now, files included. */
export function readServerPins(
  server: ApprovableServer,
  hash: HashFile,
  searchPath: string | undefined,
  fetched?: FindFetchedPackage,
): ServerPins {
  if (server.kind === 'http') return readHttpPins(server);
  const { folder } = server;
  const named = fetched?.(server.command, server.args);
  const paths = findPinnedPaths(server);
  const program =
    paths === undefined ? { missing: tooManyFiles } : findProgram(server.command, searchPath, folder, hash);
  const hashed = (paths ?? []).filter((path) => existsSync(path)).map((path) => ({ path, found: hash(path) }));
  const large = hashed.find(({ found }) => found === 'too large');
  return {
    kind: 'stdio',
    folder,
    command: server.command,
    program: large === undefined ? program : { missing: describeTooLarge(large.path) },
    args: [...server.args],
    env: hashValues(server.env),
    files: hashed.flatMap(({ path, found }) =>
      found === undefined || found === 'too large' ? [] : [{ path, real: found.real, sha256: found.sha256 }],
    ),
    ...(named === undefined ? {} : { package: named }),
  };
}

/** The reason for a server with files that are not read, because that would hold up everything else. */
function describeTooLarge(path: string): string {
  return `${path} is too large to pin: the pinned files of a server may have ${maxPinnedBytes >> 20} MB together`;
}

/** A reason why a program was not found, without the path of a file, which may be an argument. */
export function hideLargeFile(reason: string): string {
  return reason.replace(/^.* is too large to pin: /s, 'a file is too large to pin: ');
}

/** Finds the files that decide what runs. Data files in variables are left out, since they change all the time. */
function findPinnedPaths(server: StdioVariant<ApprovableServer>): string[] | undefined {
  const { folder, env } = server;
  const ofArgs = findArgFiles(server, folder);
  if (ofArgs === undefined) return undefined;
  const ofValues = findValueFiles(server, Object.values(env), folder);
  if (ofValues === undefined) return undefined;
  return [...new Set([...ofArgs, ...ofValues.filter((path) => !isDataFile(path))])].sort();
}

/** Lists the hashes of an approval by path. */
export function listApprovedHashes(pins: ServerPins): ReadonlyMap<string, string | undefined> {
  if (pins.kind === 'http') return new Map();
  const files = 'missing' in pins.program ? pins.files : [...pins.files, pins.program];
  return new Map(files.map(({ path, sha256 }) => [path, sha256]));
}

/** Describes each thing that may decide what a server runs but is not pinned. */
export function describeUnpinned(pinned: ServerPins, server: ApprovableServer): string[] {
  if (pinned.kind === 'http' || server.kind === 'http') return [];
  return [...describeUnpinnedCommand(pinned, server), ...describeUnpinnedVariables(server)];
}

function describeUnpinnedCommand(pinned: StdioVariant<ServerPins>, server: StdioVariant<ApprovableServer>): string[] {
  const languages = findStartedLanguages(server);
  if (languages.length === 0) return [];
  const code = findCodeOption(server.args, languages);
  if (code !== undefined) {
    const option = /^-*[\w-]*/.exec(code)?.[0];
    return [
      `The argument of ${option} is code. Only files that it names with a full path are pinned; it may run others.`,
    ];
  }
  if (/(?:^|\/)(?:npm|pnpm|yarn)$/.test(server.command)) {
    return ['The program is not pinned: package.json defines it.'];
  }
  const named = new Set(findArgFiles(server, server.folder));
  if (pinned.files.some(({ path }) => named.has(path) && !isDataFile(path))) return [];
  return [`The script is not pinned: no script was found that ${server.command} would start.`];
}

function describeUnpinnedVariables(server: StdioVariant<ApprovableServer>): string[] {
  return Object.entries(server.env).flatMap(([name, value]) => {
    const places = (findValueFiles(server, [value], server.folder) ?? []).filter((path) => path !== server.folder);
    return places.flatMap((path) => {
      if (isFolder(path) && value.includes('/') && path !== '/') {
        return [`${name} names the folder ${path}; its content is not pinned.`];
      }
      return existsSync(path) && isDataFile(path)
        ? [`${name} names ${path}, which is treated as data and is not pinned.`]
        : [];
    });
  });
}

/**
 * Finds the file that a command starts. Its content is pinned when it is a script, is named by a path, or is in the
 * project. A program of the system may be updated, but must stay the same file.
 */
function findProgram(
  command: string,
  searchPath: string | undefined,
  folder: string,
  hash: HashFile,
): FilePin | { readonly missing: string } {
  const located = locateProgram(command, searchPath);
  if ('missing' in located) return located;
  const { path, real } = located;
  if (!command.includes('/') && !isInside(real, folder) && !isInside(path, folder) && !isScript(real))
    return { path, real };
  const hashed = hash(path);
  if (hashed === 'too large') return { missing: describeTooLarge(path) };
  return hashed === undefined
    ? { missing: 'the program cannot be read' }
    : { path, real: hashed.real, sha256: hashed.sha256 };
}

/** One difference between the approved and the current state. */
export interface PinChange {
  /** The subject, safe for everybody: no value, and no path outside the project. */
  readonly place: string;
  /** The whole difference in one line, for the operator. */
  readonly line: string;
}

export interface ToolChange {
  readonly tool: string;
  readonly kind: 'added' | 'changed' | 'removed';
  readonly changes: readonly PinChange[];
}

const createChange = (place: string, what: string): PinChange => ({
  place: escapeControls(place),
  line: escapeControls(`${place}: ${what}`),
});

export function diffServerPins(approved: ServerPins, now: ServerPins): PinChange[] {
  if (approved.kind !== now.kind) return [createChange('transport', `${approved.kind} → ${now.kind}`)];
  if (approved.kind === 'http' || now.kind === 'http') {
    if (approved.kind !== 'http' || now.kind !== 'http') return [];
    return [
      ...(approved.url === now.url ? [] : [createChange('url', `${approved.url} → ${now.url}`)]),
      ...diffValues('header', lowercaseNames(approved.headers), lowercaseNames(now.headers)),
    ];
  }
  const shown = (path: string, { folder }: ServerPins): string => relativeInside(path, folder) ?? path;
  const changes: PinChange[] = [];
  if (approved.command !== now.command) {
    changes.push(createChange('command', `${shown(approved.command, approved)} → ${shown(now.command, now)}`));
  }
  changes.push(...diffProgram(approved, now));
  for (let i = 0; i < Math.max(approved.args.length, now.args.length); i++) {
    const [before, after] = [approved.args[i], now.args[i]];
    if (before === after) continue;
    if (before === undefined) changes.push(createChange(`args[${i}]`, `added: ${shown(after as string, now)}`));
    else if (after === undefined) changes.push(createChange(`args[${i}]`, `removed: ${shown(before, approved)}`));
    else changes.push(createChange(`args[${i}]`, `${shown(before, approved)} → ${shown(after, now)}`));
  }
  const values = diffValues('env', approved.env, now.env);
  return [...changes, ...values, ...diffFiles(approved, now), ...diffPackage(approved, now)];
}

/** Ignores a package that was fetched after the approval: the approval has no pin for it. */
export function withoutLatePackage(now: ServerPins, approved: ServerPins): ServerPins {
  if (now.kind !== 'stdio' || (approved.kind === 'stdio' && approved.package !== undefined)) return now;
  const { package: _, ...rest } = now;
  return rest;
}

/** Compares the pins without the folder: the file may move, but what runs may not change. */
export function isSameServer(approved: ServerPins, now: ServerPins): boolean {
  return toCanonicalJson({ ...approved, folder: '' }) === toCanonicalJson({ ...now, folder: '' });
}

type Stdio = Extract<ServerPins, { kind: 'stdio' }>;

function diffProgram(approved: Stdio, now: Stdio): PinChange[] {
  const [before, after] = [approved.program, now.program];
  if ('missing' in after) return [createChange('command', after.missing)];
  if ('missing' in before)
    return approved.command === now.command ? [createChange('command', `now is ${after.real}`)] : [];
  if (before.real !== after.real) return [createChange('command', `leads to ${after.real}, was ${before.real}`)];
  return before.sha256 === after.sha256
    ? []
    : [createChange(`program ${publicPath(after.path, now.folder)}`, 'content changed')];
}

function diffPackage({ package: before }: Stdio, { package: after }: Stdio): PinChange[] {
  if (before === undefined) return [];
  const shown = (pin: typeof before) => `${pin.name} ${pin.version} (${pin.integrity.slice(0, 20)}…)`;
  if (after === undefined) return [createChange('package', `${shown(before)} has changed since it was downloaded`)];
  const same = before.name === after.name && before.version === after.version && before.integrity === after.integrity;
  return same ? [] : [createChange('package', `${shown(before)} → ${shown(after)}`)];
}

function diffFiles(approved: Stdio, now: Stdio): PinChange[] {
  const before = new Map(approved.files.map((file) => [file.path, file]));
  const after = new Map(now.files.map((file) => [file.path, file]));
  const about = (file: FilePin): string => `script ${publicPath(file.path, now.folder)}`;
  const changed = now.files.flatMap((file) => {
    const known = before.get(file.path);
    // A new argument is a change of its own, so its file is not listed.
    if (known === undefined) {
      return approved.args.join('\0') === now.args.join('\0')
        ? [createChange(about(file), 'is new since the approval, or was not pinned by an earlier version')]
        : [];
    }
    if (known.real !== file.real) return [createChange(about(file), `leads to ${file.real}, was ${known.real}`)];
    return known.sha256 === file.sha256 ? [] : [createChange(about(file), 'content changed')];
  });
  const gone = approved.files
    .filter((file) => !after.has(file.path) && approved.args.join('\0') === now.args.join('\0'))
    .map((file) => createChange(about(file), 'was removed or cannot be read'));
  return [...changed, ...gone];
}

function diffValues(
  what: string,
  approved: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): PinChange[] {
  const names = [...new Set([...Object.keys(approved), ...Object.keys(now)])].sort();
  return names.flatMap((name) => {
    const before = Object.hasOwn(approved, name) ? approved[name] : undefined;
    const after = Object.hasOwn(now, name) ? now[name] : undefined;
    if (before === after) return [];
    const how = before === undefined ? 'added' : after === undefined ? 'removed' : 'value changed';
    return [createChange(`${what} ${name}`, how)];
  });
}

export function diffToolPins(pinned: ToolPins, now: ToolPins): ToolChange[] {
  const names = [...new Set([...Object.keys(pinned), ...Object.keys(now)])].sort();
  return names.flatMap((tool): ToolChange[] => {
    const before = Object.hasOwn(pinned, tool) ? pinned[tool] : undefined;
    const after = Object.hasOwn(now, tool) ? now[tool] : undefined;
    const place = `tool ${tool}`;
    if (before === undefined)
      return [{ tool, kind: 'added', changes: [createChange(place, 'is new since the approval')] }];
    if (after === undefined) return [{ tool, kind: 'removed', changes: [createChange(place, 'was removed')] }];
    const approved = listVariants(before);
    const members = new Set(listVariants(after).flatMap((variant) => findNearestPin(approved, variant).members));
    const changes = [...members].sort().map((member) => createChange(place, `${member} changed`));
    return changes.length === 0 ? [] : [{ tool, kind: 'changed', changes }];
  });
}

/** Finds the approved definition that is most like this one, and the members that differ; none if one is equal. */
export function findNearestPin(approved: readonly ToolPin[], now: ToolPin) {
  const pairs = approved.map((before) => {
    const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
    return { before, members: names.filter((member) => !isSameMember(before, now, member)) };
  });
  return pairs.reduce((nearest, each) => (each.members.length < nearest.members.length ? each : nearest));
}

function isSameMember(before: ToolPin, now: ToolPin, member: string): boolean {
  const [first, second] = [before, now].map((pin) => (Object.hasOwn(pin, member) ? pin[member] : undefined));
  if (first !== undefined && second !== undefined) return first === second;
  return member === 'execution' && taskSupportHashes.has(first ?? second);
}

/**
 * The hashes of what `execution` says in MCP. It exists only between clients and servers of 2025-11-25, so clients of
 * other versions get the same tool without it.
 */
const taskSupportHashes: ReadonlySet<string | undefined> = new Set(
  ['forbidden', 'optional', 'required'].map((taskSupport) => sha256Hex(toCanonicalJson({ taskSupport }))),
);

function lowercaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, hash]) => [name.toLowerCase(), hash]));
}

function relativeInside(path: string, folder: string): string | undefined {
  if (!path.startsWith('/')) return undefined;
  const inside = relative(folder, path);
  return inside === '' || inside.startsWith('..') ? undefined : inside;
}

/** The path relative to the project, or only the last name of a path outside it. */
function publicPath(path: string, folder: string): string {
  return relativeInside(path, folder) ?? basename(path);
}

/**
 * Finds the pinned files that another account could replace between the check and the start. Programs on PATH belong to
 * the system: an account that may write there needs no such trick.
 */
export function findExposedPins(pinned: ServerPins): PinChange[] {
  if (pinned.kind === 'http') return [];
  const { program, files, folder, command } = pinned;
  const isOwn = 'sha256' in program && (command.includes('/') || program.path.startsWith(`${folder}/`));
  return [
    ...(isOwn ? findFileExposure('program', program, folder) : []),
    ...files.flatMap((file) => findFileExposure('script', file, folder)),
  ];
}

function findFileExposure(what: 'program' | 'script', { path }: FilePin, folder: string): PinChange[] {
  const exposed = findExposure(path);
  return exposed === undefined ? [] : [createChange(`${what} ${publicPath(path, folder)}`, exposed)];
}
