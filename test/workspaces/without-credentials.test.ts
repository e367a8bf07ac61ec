import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openDatabase } from '../../src/workspaces/database/open-database.ts';
import { pathRules } from '../../src/workspaces/path-rules.ts';
import { readExpression } from '../../src/workspaces/search/expression.ts';
import { grep } from '../../src/workspaces/search/grep.ts';
import { filesIn, ripgrepOfFile } from './search/searched.ts';
import { bytes, contentOf, noRules } from './suite/ground.ts';

/** Each holds "SECRET" wherever a credential is, and "plain" in what may be read. */
const files: Record<string, string> = {
  '.npmrc': `; //old/:_authToken=SECRET1
//registry.example.com/:_authToken=SECRET2
//registry.example.com/:_password="SECRET3"
//registry.example.com/:username = SECRET4
"//quoted.example.com/:_authToken" = SECRET5
_auth=SECRET6
key="SECRET7"
cert[]=SECRET8
https-proxy=http://me:SECRET9@proxy.example.com
registry=https://plain.example.com/
`,
  'packages/a/.npmrc': '//r/:_authToken=SECRET10\nsave-prefix=plain\n',
  '.yarnrc.yml': `npmScopes:
  mine:
    npmRegistryServer: "https://plain.example.com"
    npmAuthToken: SECRET11
    npmAuthIdent: >-
      SECRET12
inline: { npmAuthToken: "SECRET13", x: plain }
`,
  '.yarnrc': '"//r/:_authToken" "SECRET14"\nregistry "https://SECRET15@plain.example.com"\n',
  '.git/config': `[core]
\tbare = false ; plain
[remote "origin"]
\turl = https://me:SECRET16@example.com/plain.git
\tpushurl = "https://SECRET17@example.com/x?private_token=SECRET18&plain=1"
[url "https://x-access-token:SECRET19@example.com/"] insteadOf = https://plain.example.com/
[http "https://example.com/"]
\textraheader = AUTHORIZATION: basic SECRET20
\tEXTRAHEADER = AUTHORIZATION: \\
basic SECRET21
[credential]
\thelper = "!f() { echo password=SECRET22; }; f"
\tusername = SECRET23
[alias]
\tup = !curl -H 'Authorization: token SECRET24' https://plain.example.com
\ttwo = plain ghp_SECRET25aaaaaaaaaaaaaaaa
`,
  '.git/modules/sub/config': '[remote "o"]\n\turl = https://SECRET26@plain.example.com\n',
  '.git/config.worktree': '[http]\n\textraheader = X: SECRET27\n[core]\n\tplain = 1\n',
  'sub/.git/config': '[sendemail]\n\tsmtpPass = SECRET28\n[core]\n\tplain = 1\n',
  '.gitmodules': '[submodule "a"]\n\tpath = plain\n\turl = https://SECRET29@example.com\n',
  '.gitconfig': '[user]\n\tname = plain\n[github]\n\ttoken = SECRET30\n',
};

let folder: string;
const ripgrep = ripgrepOfFile();
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-settings-')));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('S4: settings are read without the credentials in them, whatever keeps the files', async () => {
  const { documents } = openMemoryStore();
  const bare = openDatabase(documents, 'ws', { rules: noRules });
  for (const [name, content] of Object.entries(files)) await bare.write(name, bytes(content));
  const stored = openDatabase(documents, 'ws', { rules: pathRules({ hide: [], keep: [], open: [] }) });
  for (const name of Object.keys(files)) {
    for (const session of [filesIn(folder), stored]) {
      const shown = await contentOf(session, name);
      expect(shown, name).not.toContain('SECRET');
      expect(shown, name).toContain('plain');
      expect(shown.split('\n').length, name).toBe(files[name]?.split('\n').length);
    }
  }
  await Promise.all([bare.close(), stored.close()]);
});

test('S4: a search finds no credential, with ripgrep and without, and what the operator opens is shown as it is', async () => {
  const query = (text: string) => ({ expression: readExpression(text, true), path: '.', contextLines: 2, limit: 100 });
  for (const searched of [filesIn(folder), filesIn(folder, ripgrep)]) {
    expect((await grep(searched, query('SECRET\\d+'))).files).toEqual([]);
    expect(JSON.stringify(await grep(searched, query('registry')))).not.toContain('SECRET');
    expect((await grep({ ...searched }, { ...query('SECRET'), path: '.npmrc' })).files).toEqual([]);
  }
  expect(ripgrep.told.names).toBeGreaterThan(0);
  const opened = filesIn(folder, undefined, { open: ['packages/a/.npmrc'] });
  expect(await contentOf(opened, 'packages/a/.npmrc')).toBe(files['packages/a/.npmrc']);
});
