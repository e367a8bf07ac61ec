import { describe, expect, test } from 'vitest';
import { readSourceFiles, type SourceFile } from './source-files.ts';

/**
 * The folders and files of `src/` that may use the file system, each with the files that it uses. Everything else reaches
 * the files of a session only through a backend.
 */
const allowed: Readonly<Record<string, string>> = {
  'lib/fs/':
    'files of Ambit: locks, secrets, records written at once; where protected links lead, which sessions are not told',
  'lib/git/': 'where the configuration of git leads, which sessions are not told',
  'observability/journal/': 'the journal',
  'stores/': 'the database',
  'context/for-tools/': 'the key that signs',
  'config/edit/': 'the configuration, and its backups',
  'config/load/': 'the configuration and the files that it includes',
  'sessions/events/webhook-queue.ts': 'events that wait to be delivered, in the data directory',
  'sandbox/': 'the files that a sandbox is made of; workspaces are mounted, by a descriptor that was opened safely',
  'workspaces/saferoot/': 'the one place where a path of a session meets the system',
  'workspaces/backends/container/': 'programs that Ambit starts',
  'workspaces/backends/local/followed-names.ts': 'the path of a workspace as the operator gave it',
  'workspaces/backends/local/open-local.ts': 'the path of a workspace as the operator gave it',
  'workspaces/codebase/': 'the indexes, in the data directory',
  'workspaces/search/ripgrep.ts': 'programs that Ambit starts',
  'workspaces/session-folders/': 'folders that Ambit makes and removes whole; the configuration of git',
  'upstreams/access/confinement.ts': 'folders of servers',
  'upstreams/access/launch-obstacle.ts': 'whether the script and folders that the operator names are there',
  'upstreams/auth/': 'the key that seals',
  'upstreams/catalog/': 'the lists of servers, in the data directory',
  'upstreams/links/': 'the eras and logs of servers, in the data directory',
  'upstreams/pins/': 'the record of approvals, and the programs they name',
  'gateway/assembly/clean-up-ended-sessions.ts': 'folders that Ambit makes and removes whole',
  'gateway/assembly/open-sandbox.ts': 'the data directory',
  'entrances/': 'the socket of the control interface',
  'cli/': 'the configuration, the data directory, and files that the person at the terminal names',
  'public/sdk/': 'keys that the gateway published',
  'public/testing/': 'a data directory for a test',
};

const mention = /(?<!import type [^;]{0,200})(?:from|import|require)\s*\(?\s*['"](?:node:)?fs(?:\/promises)?['"]/;
const using = readSourceFiles('src').filter((file) => mention.test(file.text));

const allowedFor = ({ path }: SourceFile) => Object.keys(allowed).find((each) => path.startsWith(`src/${each}`));

describe('W5: nothing but a backend touches the files of a session', () => {
  test('only these folders and files use the file system', () => {
    expect(using.filter((file) => allowedFor(file) === undefined).map(({ path }) => path)).toEqual([]);
    expect([...new Set(using.map(allowedFor))].sort()).toEqual(Object.keys(allowed).sort());
  });

  test('the tools, and the stages of a call, do not use it', () => {
    const near = ['src/workspaces/tools/', 'src/sessions/', 'src/gateway/stages/', 'src/public/server/'];
    const events = 'src/sessions/events/';
    expect(
      using
        .filter(({ path }) => near.some((each) => path.startsWith(each) && !path.startsWith(events)))
        .map(({ path }) => path),
    ).toEqual([]);
  });

  test('nobody goes round it', () => {
    const round = /process\.binding|fs-extra|graceful-fs|createRequire|getBuiltinModule/;
    const known = new Set(['src/stores/sqlite/driver.ts']);
    expect(
      readSourceFiles('src')
        .filter(({ path, text }) => round.test(text) && !known.has(path))
        .map(({ path }) => path),
    ).toEqual([]);
  });
});
