import { describe, expect, test } from 'vitest';
import { type SourceFile, sourceFiles } from './source-files.ts';

/**
 * Who may use the file system at all, and for what. Whoever is not here cannot touch the files of a session but through
 * a backend; those who are name in their reason files of the operator or of Ambit itself.
 */
const rooms: Readonly<Record<string, string>> = {
  '(hall)':
    'files of Ambit: locks, secrets, records written at once; where the configuration of git and protected links lead, which sessions are not told',
  approvals: 'the record of approvals, and the programs they name',
  cli: 'the configuration, the data directory and what the person at the terminal names',
  config: 'the configuration and what it includes',
  context: 'the key that signs',
  credentials: 'the key that seals',
  doctor: 'tries of its own in temporary folders',
  entrances: 'the socket of the control interface',
  events: 'events that wait to be delivered, in the data directory',
  gateway: 'the data directory and folders of servers; see below',
  import: 'configurations of other programs, and their backups',
  journal: 'the journal',
  runners: 'what a sandbox is made of; workspaces are mounted, by a descriptor that was opened safely',
  saferoot: 'the one place where a path of a session meets the system',
  sdk: 'keys that the gateway published',
  stores: 'the database',
  testing: 'a data directory for a test',
  upstreams: 'what is remembered of servers, in the data directory',
  workspaces: 'see below',
};

/** Where a path of a session is nearest, each file answers for itself. */
const files: Readonly<Record<string, readonly string[]>> = {
  gateway: ['assembly/open-sandbox.ts', 'confine.ts', 'sweep-folders.ts'],
  // The path of a workspace as the operator gave it; folders that Ambit makes and removes whole; programs it starts; what
  // git is configured by, to know what is closed.
  workspaces: ['container/', 'isolation/', 'local/marks.ts', 'local/open-local.ts', 'search/ripgrep.ts'],
};

const mention = /(?<!import type [^;]{0,200})(?:from|import|require)\s*\(?\s*['"](?:node:)?fs(?:\/promises)?['"]/;
const using = sourceFiles('src').filter((file) => mention.test(file.text));

function roomOf({ path }: SourceFile): string {
  const parts = path.split('/');
  return parts.length === 2 ? '(hall)' : (parts[1] as string);
}

describe('W5: nothing but a backend touches the files of a session', () => {
  test('only rooms with a reason use the file system', () => {
    expect([...new Set(using.map(roomOf))].sort()).toEqual(Object.keys(rooms).sort());
  });

  test.each(Object.entries(files))('in %s only the files that are known to', (room, known) => {
    const unknown = using
      .filter((file) => roomOf(file) === room)
      .map(({ path }) => path.slice(`src/${room}/`.length))
      .filter((path) => !known.some((each) => (each.endsWith('/') ? path.startsWith(each) : path === each)));
    expect(unknown).toEqual([]);
  });

  test('the tools, and the stages of a call, do not use it', () => {
    const near = ['src/tools/', 'src/sessions/', 'src/gateway/stages/', 'src/server/'];
    expect(using.filter(({ path }) => near.some((each) => path.startsWith(each))).map(({ path }) => path)).toEqual([]);
  });

  test('nobody goes round it', () => {
    const round = /process\.binding|fs-extra|graceful-fs|createRequire|getBuiltinModule/;
    const known = new Set(['src/stores/sqlite/driver.ts']);
    expect(
      sourceFiles('src')
        .filter(({ path, text }) => round.test(text) && !known.has(path))
        .map(({ path }) => path),
    ).toEqual([]);
  });
});
