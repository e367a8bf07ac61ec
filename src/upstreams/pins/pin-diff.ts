import { basename, relative } from 'node:path';
import { findExposure } from '../../lib/fs/who-can-write.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { ToolPins } from './pinned-tools.ts';
import type { FilePin, Pinned } from './server-pins.ts';

/** One difference between what was approved and what is there now. */
export interface Change {
  /** What it is about, fit for anyone to read: no value, no path outside the project. */
  readonly place: string;
  /** The whole of it in one line, for the operator. */
  readonly line: string;
}

export interface ToolChange {
  readonly tool: string;
  readonly kind: 'added' | 'changed' | 'removed';
  readonly changes: readonly Change[];
}

const change = (place: string, what: string): Change => ({
  place: escapeControls(place),
  line: escapeControls(`${place}: ${what}`),
});

/** Something about a file that the command line names. */
export function changeOfFile(what: 'program' | 'script', path: string, folder: string, how: string): Change {
  return change(`${what} ${publicName(path, folder)}`, how);
}

/** What differs between the server that was approved and the one there is now, a readable line each. */
export function diffOf(approved: Pinned, now: Pinned): Change[] {
  if (approved.kind !== now.kind) return [change('transport', `${approved.kind} → ${now.kind}`)];
  if (approved.kind === 'http' || now.kind === 'http') {
    if (approved.kind !== 'http' || now.kind !== 'http') return [];
    return [
      ...(approved.url === now.url ? [] : [change('url', `${approved.url} → ${now.url}`)]),
      ...diffOfValues('header', lowerNames(approved.headers), lowerNames(now.headers)),
    ];
  }
  const shown = (path: string, { folder }: Pinned): string => within(path, folder) ?? path;
  const changes: Change[] = [];
  if (approved.command !== now.command) {
    changes.push(change('command', `${shown(approved.command, approved)} → ${shown(now.command, now)}`));
  }
  changes.push(...diffOfProgram(approved, now));
  for (let i = 0; i < Math.max(approved.args.length, now.args.length); i++) {
    const [before, after] = [approved.args[i], now.args[i]];
    if (before === after) continue;
    if (before === undefined) changes.push(change(`args[${i}]`, `added: ${shown(after as string, now)}`));
    else if (after === undefined) changes.push(change(`args[${i}]`, `removed: ${shown(before, approved)}`));
    else changes.push(change(`args[${i}]`, `${shown(before, approved)} → ${shown(after, now)}`));
  }
  changes.push(...diffOfValues('env', approved.env, now.env));
  changes.push(...diffOfFiles(approved, now), ...diffOfPackage(approved, now));
  return changes;
}

type Stdio = Extract<Pinned, { kind: 'stdio' }>;

function diffOfProgram(approved: Stdio, now: Stdio): Change[] {
  const [before, after] = [approved.program, now.program];
  if ('missing' in after) return [change('command', after.missing)];
  if ('missing' in before) return approved.command === now.command ? [change('command', `now is ${after.real}`)] : [];
  if (before.real !== after.real) return [change('command', `leads to ${after.real}, was ${before.real}`)];
  return before.sha256 === after.sha256
    ? []
    : [change(`program ${publicName(after.path, now.folder)}`, 'content changed')];
}

function diffOfPackage({ package: before }: Stdio, { package: after }: Stdio): Change[] {
  if (before === undefined) return [];
  const shown = (pin: typeof before) => `${pin.name} ${pin.version} (${pin.integrity.slice(0, 20)}…)`;
  if (after === undefined) return [change('package', `${shown(before)} is no longer there as it was fetched`)];
  const same = before.name === after.name && before.version === after.version && before.integrity === after.integrity;
  return same ? [] : [change('package', `${shown(before)} → ${shown(after)}`)];
}

function diffOfFiles(approved: Stdio, now: Stdio): Change[] {
  const before = new Map(approved.files.map((file) => [file.path, file]));
  const after = new Map(now.files.map((file) => [file.path, file]));
  const about = (file: FilePin): string => `script ${publicName(file.path, now.folder)}`;
  const changed = now.files.flatMap((file) => {
    const known = before.get(file.path);
    // A new argument is a change by itself; its file only adds to the noise.
    if (known === undefined) {
      return approved.args.join('\0') === now.args.join('\0')
        ? [change(about(file), 'was not there when approved, or an earlier version did not pin it')]
        : [];
    }
    if (known.real !== file.real) return [change(about(file), `leads to ${file.real}, was ${known.real}`)];
    return known.sha256 === file.sha256 ? [] : [change(about(file), 'content changed')];
  });
  const gone = approved.files
    .filter((file) => !after.has(file.path) && approved.args.join('\0') === now.args.join('\0'))
    .map((file) => change(about(file), 'is gone or cannot be read'));
  return [...changed, ...gone];
}

function diffOfValues(
  what: string,
  approved: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): Change[] {
  const names = [...new Set([...Object.keys(approved), ...Object.keys(now)])].sort();
  return names.flatMap((name) => {
    const before = Object.hasOwn(approved, name) ? approved[name] : undefined;
    const after = Object.hasOwn(now, name) ? now[name] : undefined;
    if (before === after) return [];
    const how = before === undefined ? 'added' : after === undefined ? 'removed' : 'value changed';
    return [change(`${what} ${name}`, how)];
  });
}

/** Which tools are not as they were pinned. */
export function diffOfTools(pinned: ToolPins, now: ToolPins): ToolChange[] {
  const names = [...new Set([...Object.keys(pinned), ...Object.keys(now)])].sort();
  return names.flatMap((tool): ToolChange[] => {
    const before = Object.hasOwn(pinned, tool) ? pinned[tool] : undefined;
    const after = Object.hasOwn(now, tool) ? now[tool] : undefined;
    const place = `tool ${tool}`;
    if (before === undefined) return [{ tool, kind: 'added', changes: [change(place, 'was not there when approved')] }];
    if (after === undefined) return [{ tool, kind: 'removed', changes: [change(place, 'is gone')] }];
    const members = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    const changes = members
      .filter((member) => before[member] !== after[member])
      .map((member) => change(place, `${member} changed`));
    return changes.length === 0 ? [] : [{ tool, kind: 'changed', changes }];
  });
}

function lowerNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, hash]) => [name.toLowerCase(), hash]));
}

function within(path: string, folder: string): string | undefined {
  if (!path.startsWith('/')) return undefined;
  const inside = relative(folder, path);
  return inside === '' || inside.startsWith('..') ? undefined : inside;
}

/** Relative in the project; of anything else only its last name. */
function publicName(path: string, folder: string): string {
  return within(path, folder) ?? basename(path);
}

/**
 * The pinned files that another account could exchange between the last look and the moment they are opened. Programs
 * that are found on PATH are the system's: whoever may write there needs no exchange.
 */
export function findExposed(pinned: Pinned): Change[] {
  if (pinned.kind === 'http') return [];
  const { program, files, folder, command } = pinned;
  const isOwn = 'sha256' in program && (command.includes('/') || program.path.startsWith(`${folder}/`));
  return [
    ...(isOwn ? exposureOf('program', program, folder) : []),
    ...files.flatMap((file) => exposureOf('script', file, folder)),
  ];
}

function exposureOf(what: 'program' | 'script', { path }: FilePin, folder: string): Change[] {
  const exposed = findExposure(path);
  return exposed === undefined ? [] : [changeOfFile(what, path, folder, exposed)];
}
