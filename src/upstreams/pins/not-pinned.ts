import { existsSync } from 'node:fs';
import { isDataFile } from './data-files.ts';
import { findCodeOption } from './interpreters.ts';
import { filesOfArgs, filesOfValues, startedLanguages } from './named-files.ts';
import type { Approvable, Pinned } from './pinned.ts';
import { isFolder } from './script-names.ts';

/** One sentence for each thing that may decide what a server runs and that an approval does not pin. */
export function whatIsNotPinned(pinned: Pinned, server: Approvable): string[] {
  if (pinned.kind === 'http' || server.kind === 'http') return [];
  return [...ofCommand(pinned, server), ...ofVariables(server)];
}

type Stdio<T> = Extract<T, { kind: 'stdio' }>;

function ofCommand(pinned: Stdio<Pinned>, server: Stdio<Approvable>): string[] {
  const languages = startedLanguages(server);
  if (languages.length === 0) return [];
  const code = findCodeOption(server.args, languages);
  if (code !== undefined) {
    const option = /^-*[\w-]*/.exec(code)?.[0];
    return [`What comes with ${option} is code. Only the files that it names in full are pinned; it may run others.`];
  }
  if (/(?:^|\/)(?:npm|pnpm|yarn)$/.test(server.command)) {
    return ['What this runs is not pinned: package.json says what it is.'];
  }
  const named = new Set(filesOfArgs(server, server.folder));
  if (pinned.files.some(({ path }) => named.has(path) && !isDataFile(path))) return [];
  return [`What this runs is not pinned: no script was found that ${server.command} would start.`];
}

function ofVariables(server: Stdio<Approvable>): string[] {
  return Object.entries(server.env).flatMap(([name, value]) => {
    const places = (filesOfValues(server, [value], server.folder) ?? []).filter((path) => path !== server.folder);
    return places.flatMap((path) => {
      if (isFolder(path) && value.includes('/') && path !== '/') {
        return [`${name} names the folder ${path}; what lies in it is not pinned.`];
      }
      return existsSync(path) && isDataFile(path)
        ? [`${name} names ${path}, which counts as data and is not pinned.`]
        : [];
    });
  });
}
