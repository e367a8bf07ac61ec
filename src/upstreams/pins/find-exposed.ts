import { findExposure } from '../../lib/fs/find-exposure.ts';
import { type Change, changeOfFile } from './diff.ts';
import type { FilePin, Pinned } from './pinned.ts';

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
