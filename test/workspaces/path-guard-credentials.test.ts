import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openDatabase } from '../../src/workspaces/backends/database/open-database.ts';
import { createPathRules } from '../../src/workspaces/path-guard.ts';
import { parseExpression } from '../../src/workspaces/search/expression.ts';
import { grepFiles } from '../../src/workspaces/search/grep.ts';
import { noRules, readContent, refusalCode, toBytes } from './backends/suite/suite-workspace.ts';
import { writeFiles } from './search/make-folder.ts';
import { createSandboxedRipgrep, openFiles } from './search/open-files.ts';

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
  '.mcp.json': `{
  // "token": "SECRET31"
  "mcpServers": {
    "plain": {
      "command": "npx", "args": ["-y", "plain", "--api-key", "SECRET32", "--auth-token=SECRET33", "-e", "DB_PASSWORD=SECRET34"],
      "env": { "REGION": "SECRET35", "PIN": 31415, "KEPT": "\${plain}", "NESTED": ["SECRET36"] },
      "url": "https://SECRET37@plain.example.com/?api_key=SECRET38",
      "headers": { "Authorization": "Bearer SECRET39\\"SECRET40", "X": "Bearer \${env:PLAIN}" },
      "key": "SECRET67", "auth": { "user": "SECRET68" }, "sse": "https://plain.example.com/?code=SECRET69&key=SECRET70",
      "more": ["--key", "SECRET71", "-k", "SECRET72", "--pat", "SECRET73", "--auth", "SECRET74", "--dsn", "SECRET75"],
      "most": ["--connection-string=Server=x;Pwd=SECRET76;", "SENTRY_DSN=SECRET77", "--account-key", "SECRET78"],
      "clientSecret": "SECRET41", "oauth": { "accessToken": { "value": "SECRET42" } } /* "x": "SECRET43" */
    }
  }
}
`,
  '.cursor/mcp.json': '{"env":{"plain":"SECRET44","unended":"SECRET45',
  'opencode.jsonc': '{ "provider": { "plain": { "options": { "apiKey": "SECRET46" } } }, }\n',
  '.aider.conf.yml': 'model: plain\nopenai-api-key: SECRET47\n',
  '.cargo/config.toml': `# token = "SECRET48"
[registries.plain]
index = "sparse+https://plain.example.com/"
token = "SECRET49" # plain
[registries]
two = { index = "plain", token = 'SECRET50', "secret-key" = "SECRET51" }
three.token = """
SECRET52
"""
[http]
proxy = "me:SECRET53@proxy.example.com:80"
[env]
PLAIN = "SECRET54"
FORCED = { value = "SECRET55", force = true }
MANY = [
  "SECRET56",
  'SECRET57',
]
[net]
retry = 2
`,
  '.codex/config.toml': `[mcp_servers.plain]
args = ["--token", "SECRET58"]
env = { "A" = "SECRET59" }
[mcp_servers.plain.http_headers]
X-Plain = "SECRET60"
`,
  'mise.toml': '[env]\nA = "SECRET61"\n[tools]\nnode = "plain"\n',
  '.git/modules/x/config': `[plain]
\tappSecret = SECRET62
\tmyToken = SECRET63
\tdbPassword = SECRET64
\tproxyExtraHeader = SECRET65
\tapikey = SECRET66
`,
  '.hg/hgrc': `[auth]
x.prefix = https://plain.example.com
x.password = SECRET79
y.password:
  SECRET80
[paths]
default = https://ada:SECRET81@example.com/plain
`,
  '.sl/config': '[auth]\nx.username = SECRET82\n[ui]\nplain = 1\n',
  '.git/config.bak': '[remote "plain"]\n\turl = https://me:SECRET83@example.com/\n',
  '.git/config~': '[plain]\n\ttoken = SECRET84\n',
  '.npmrc.orig': '_authToken=SECRET85\nregistry=plain\n',
  '.cursor/mcp.json.old': '{"env":{"A":"SECRET86"},"plain":1}',
  '..mcp.json.swp': '{"token":"SECRET87","plain":1}',
  '.bundle/config': `---
BUNDLE_PATH: "plain"
BUNDLE_GITHUB__COM: SECRET88
# BUNDLE_GEMS__EXAMPLE__COM: SECRET89
BUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "https://me:SECRET90@plain.example.com"
`,
  '.flaskenv': 'FLASK_APP=plain\nexport API_KEY=SECRET91\n# DB_PASSWORD=SECRET92\n',
  '.Renviron': 'R_LIBS=plain\nGITHUB_PAT = "SECRET93"\n',
  'bunfig.toml': '[install]\nregistry = { url = "https://plain", token = "SECRET94" }\n',
  '.idea/workspace.xml': `<?xml version="1.0"?>
<project name="plain">
  <env name="REGION" value="SECRET95" />
  <option value='SECRET96>SECRET97' name="dbPassword" />
  <!-- <option name="token" value="SECRET98" /> -->
  <password><![CDATA[SECRET99]]>
    SECRET100</password><user password = "SECRET101"
      url="jdbc:x://me:SECRET102@plain.example.com/?x=1&amp;password=SECRET103"/>
  <option name="apiToken"><option value="SECRET110"/><option>SECRET111</option>SECRET112</option>
  <jdbc-url>jdbc:sqlserver://plain.example.com;user=plain; password=SECRET109</jdbc-url>
  <option name="unended" password="SECRET104`,
  'NuGet.Config': `<configuration><packageSourceCredentials><plain>
  <add key="Username" value="SECRET105" /><add key="ClearTextPassword" value="SECRET106" />
</plain></packageSourceCredentials></configuration>
`,
  '.mvn/settings.xml': '<server><id>plain</id><username>SECRET107</username><password>SECRET108</password></server>\n',
  '.gitconfig': '[user]\n\tname = plain\n[github]\n\ttoken = SECRET30\n',
};

let folder: string;
const ripgrep = createSandboxedRipgrep();
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-settings-')));
  writeFiles(folder, files);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('S4: settings are read without the credentials in them, whatever keeps the files', async () => {
  const { documents } = openMemoryStore();
  const bare = openDatabase(documents, 'ws', { rules: noRules });
  for (const [name, content] of Object.entries(files)) await bare.write(name, toBytes(content));
  const stored = openDatabase(documents, 'ws', { rules: createPathRules({ hide: [], keep: [], open: [] }) });
  for (const name of Object.keys(files)) {
    for (const session of [openFiles(folder), stored]) {
      const shown = await readContent(session, name);
      expect(shown, name).not.toMatch(/SECRET|31415/);
      expect(shown, name).toContain('plain');
      expect(shown.split('\n').length, name).toBe(files[name]?.split('\n').length);
    }
  }
  await Promise.all([bare.close(), stored.close()]);
});

test('S4: a repository under any name is read without credentials, and so is what a link or git takes for settings', async () => {
  const config = '[remote "plain"]\n\turl = https://me:HIDE-ME@example.com\n';
  const more = {
    'mirror/HEAD': '',
    'mirror/objects/x': '',
    'mirror/refs/x': '',
    'mirror/credentials': 'https://me:HIDE-ME@example.com\n',
    'mirror/config': config,
    'shared/settings': config,
    'other/npmrc': '_authToken=HIDE-ME\nregistry=plain\n',
    '.git/config': `${files['.git/config']}[include]\npath = ../shared/settings\n`,
    'linked/x': '',
  };
  writeFiles(folder, more);
  symlinkSync('other/yarnrc', join(folder, '.yarnrc.local'));
  writeFileSync(join(folder, 'other/yarnrc'), '_authToken HIDE-ME\nregistry plain\n');
  symlinkSync('../other/npmrc', join(folder, 'linked/.npmrc'));
  const session = openFiles(folder);
  for (const name of ['mirror/config', 'shared/settings', '.yarnrc.local', 'other/yarnrc', 'linked/.npmrc']) {
    const shown = await readContent(session, name);
    expect(shown, name).not.toContain('HIDE-ME');
    expect(shown, name).toContain('plain');
  }
  expect(await refusalCode(session.open('mirror/credentials'))).toBe('PATH_PROTECTED');
});

test('S4: a search finds no credential, with ripgrep and without, and what the operator opens is shown as it is', async () => {
  const query = (text: string) => ({ expression: parseExpression(text, true), path: '.', contextLines: 2, limit: 100 });
  for (const searched of [openFiles(folder), openFiles(folder, ripgrep)]) {
    expect((await grepFiles(searched, query('SECRET\\d+'))).files).toEqual([]);
    expect(JSON.stringify(await grepFiles(searched, query('registry')))).not.toContain('SECRET');
    expect((await grepFiles({ ...searched }, { ...query('SECRET'), path: '.npmrc' })).files).toEqual([]);
  }
  expect(ripgrep.answers.names).toBeGreaterThan(0);
  const opened = openFiles(folder, undefined, { open: ['packages/a/.npmrc'] });
  expect(await readContent(opened, 'packages/a/.npmrc')).toBe(files['packages/a/.npmrc']);
});
