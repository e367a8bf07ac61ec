import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { copyFrozen } from '../../../src/config/load/load.ts';
import { assertOutOfReach } from '../../../src/config/load/out-of-reach.ts';
import { resolveSymlinks } from '../../../src/config/load/resolve-symlinks.ts';
import { type Config, configSchema } from '../../../src/config/schema/schema.ts';

let root: string;
const at = (...names: string[]): string => join(root, ...names);

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-reach-')));
  for (const folder of ['config', 'data', 'work', 'work/inner']) mkdirSync(at(folder));
  vi.stubEnv('XDG_RUNTIME_DIR', at('runtime'));
  vi.stubEnv('HOME', at('home'));
  writeFileSync(at('config/ambit.yaml'), 'version: 1\n');
  writeFileSync(at('work/ambit.yaml'), 'version: 1\n');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true });
});

function configWith(workspace?: string, writable: string[] = [], readable: string[] = []): Config {
  return copyFrozen(
    configSchema.parse({
      version: 1,
      ...(workspace === undefined ? {} : { workspaces: { work: { path: workspace } } }),
      servers: { a: { command: 'x', sandbox: { writable, readable } }, b: { url: 'http://h/' } },
    }),
  );
}

interface Choice {
  configFile?: string;
  dataDir?: string;
  workspace?: string;
  writable?: string[];
  readable?: string[];
}
function check(choice: Choice): void {
  const {
    configFile = at('config/ambit.yaml'),
    dataDir = at('data'),
    workspace = at('work'),
    writable,
    readable,
  } = choice;
  assertOutOfReach({ configFile, dataDir, config: configWith(workspace, writable, readable) });
}

test('nothing of Ambit lies anywhere in the folder of a pattern, whatever the folders there are named', async () => {
  const checkPattern = (places: { configFile?: string; dataDir?: string }) => {
    const config = copyFrozen(configSchema.parse({ version: 1, workspaces: { 'w-*': { path: at('work/*') } } }));
    assertOutOfReach({ configFile: at('config/ambit.yaml'), dataDir: at('data'), ...places, config });
  };
  expect(() => checkPattern({})).not.toThrow();
  symlinkSync(at('work/inner'), at('to-inner'));
  for (const name of ['work/inner', 'work/later/data', 'work/.hidden', 'work/Not A Slug', 'to-inner']) {
    expect(() => checkPattern({ dataDir: at(name) }), name).toThrow(/inside the folder of the workspaces "w-\*"/);
  }
  expect(() => checkPattern({ configFile: at('work/ambit.yaml') })).toThrow(/the configuration file/);
  // Nor could a session put links in the place of the folders there.
  const checkNested = (workspaces: object, writable: string[] = []) => {
    const servers = { a: { command: 'x', sandbox: { writable } } };
    const config = copyFrozen(configSchema.parse({ version: 1, servers, workspaces }));
    assertOutOfReach({ configFile: at('config/ambit.yaml'), dataDir: at('data'), config });
  };
  const inner = { 'i-*': { path: at('work/inner/*') } };
  const exchange = /the folder of the workspaces "i-\*".*could exchange its folders/;
  for (const path of [at('work'), at('work/inner')]) {
    expect(() => checkNested({ ...inner, all: { path } })).toThrow(exchange);
    expect(() => checkNested(inner, [path])).toThrow(exchange);
  }
  expect(() => checkNested({ ...inner, 'w-*': { path: at('work/*') } })).toThrow(exchange);
  expect(() => checkNested({ 'l-*': { path: at('to-inner/*') }, all: { path: at('work') } })).toThrow(/exchange/);
  expect(() =>
    checkNested({ ...inner, 'j-*': { path: at('work/inner/*') }, one: { path: at('work/inner/a') } }),
  ).not.toThrow();
  // A folder in the data directory is refused too.
  expect(() => checkPattern({ dataDir: root })).toThrow(/is inside the data directory/);
});

describe('accepted', () => {
  test('is what lies apart', () => {
    expect(() => check({})).not.toThrow();
    expect(() => check({ dataDir: at('not', 'there', 'yet'), writable: [at('neither')] })).not.toThrow();
  });

  test('is a workspace inside the folder of the configuration, or a name that only begins the same', () => {
    expect(() => check({ configFile: at('ambit.yaml') })).not.toThrow();
    expect(() => check({ dataDir: at('work-data') })).not.toThrow();
    expect(() => check({ dataDir: at('work'), workspace: at('work-2') })).not.toThrow();
  });

  test('is a workspace in the home folder or the runtime folder, beside the list of running gateways', () => {
    expect(() => check({ workspace: at('home/projects'), readable: [at('runtime/pulse')] })).not.toThrow();
    expect(() => check({ workspace: at('home/.local/state/other') })).not.toThrow();
  });

  test('is no configuration file at all', () => {
    expect(() => assertOutOfReach({ dataDir: at('data'), config: configWith(at('work')) })).not.toThrow();
  });
});

describe('refused', () => {
  test.each<[string, () => Choice, RegExp]>([
    [
      'a configuration in a workspace',
      () => ({ configFile: at('work/ambit.yaml') }),
      /configuration file .* is inside the workspace "work" .*--config/,
    ],
    [
      'a configuration that a sandbox could read',
      () => ({ readable: [at('config')] }),
      /configuration file .* is inside a readable path of the server "a" .*could read it/,
    ],
    ['a data directory that a sandbox could read', () => ({ readable: [root] }), /data directory/],
    ['a part of the data directory', () => ({ readable: [at('data/keys')] }), /is inside the data directory/],
    ['a configuration deeper in it', () => ({ configFile: at('work/inner/x/ambit.yaml') }), /configuration file/],
    [
      'a data directory in a workspace',
      () => ({ dataDir: at('work/inner') }),
      /data directory .* is inside the workspace "work" .*--data-dir/,
    ],
    ['a data directory there that does not exist yet', () => ({ dataDir: at('work/a/b/c') }), /data directory/],
    ['a data directory that is the workspace', () => ({ dataDir: at('work') }), /data directory/],
    ['a workspace that is the root', () => ({ workspace: '/' }), /configuration file/],
    ['dots that lead into the workspace', () => ({ dataDir: `${at('data')}/../work/x` }), /data directory/],
    [
      'a configuration in a writable path',
      () => ({ writable: [at('config')] }),
      /configuration file .* a writable path of the server "a"/,
    ],
    ['a configuration that is a writable path', () => ({ writable: [at('config/ambit.yaml')] }), /configuration file/],
    ['a data directory in a writable path', () => ({ writable: [root] }), /data directory .* a writable path/],
    [
      'a workspace in the data directory',
      () => ({ workspace: at('data/work') }),
      /the workspace "work" .* is inside the data directory/,
    ],
    [
      'a writable path in the data directory',
      () => ({ writable: [at('data/run')] }),
      /a writable path .* is inside the data directory/,
    ],
    [
      'a workspace that is the home folder: the list of running gateways decides where commands go',
      () => ({ workspace: at('home') }),
      /list of running gateways .*home\/.local\/state\/ambit\/run is inside the workspace "work".*further down/,
    ],
    ['a workspace in which that list would be', () => ({ workspace: at('home/.local/state') }), /running gateways/],
    ['a writable runtime folder', () => ({ writable: [at('runtime')] }), /running gateways .*runtime\/ambit/],
    ['a readable runtime folder', () => ({ readable: [at('runtime/ambit')] }), /running gateways .*could read it/],
    ['the home folder of the account, whatever HOME says', () => ({ workspace: userInfo().homedir }), /run is in/],
  ])('%s', (_, choice, message) => {
    expect(() => check(choice())).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringMatching(message) }),
    );
  });

  test('through links, whichever end is one', () => {
    symlinkSync(at('work'), at('alias'));
    expect(() => check({ configFile: at('alias/ambit.yaml') })).toThrow('is inside the workspace');
    expect(() => check({ dataDir: at('alias/new') })).toThrow('is inside the workspace');
    expect(() => check({ workspace: at('alias'), dataDir: at('work/data') })).toThrow('is inside the workspace');
    symlinkSync('work/inner', at('relative'));
    expect(() => check({ dataDir: at('relative/x') })).toThrow('is inside the workspace');
    expect(() => check({ dataDir: `${at('relative')}/../x` })).toThrow('is inside the workspace');
  });

  test('a link that points to a place in the workspace where nothing is yet', () => {
    symlinkSync(at('work/later'), at('dangling'));
    expect(() => check({ dataDir: at('dangling') })).toThrow('is inside the workspace');
    expect(() => check({ dataDir: at('dangling/x') })).toThrow('is inside the workspace');
  });

  test('a link that lies in the workspace and points out of it: the agent could turn it', () => {
    symlinkSync(at('config'), at('work/out'));
    expect(() => check({ configFile: at('work/out/ambit.yaml') })).toThrow('is inside the workspace');
    symlinkSync(at('work/out'), at('detour'));
    expect(() => check({ configFile: at('detour/ambit.yaml') })).toThrow('is inside the workspace');
  });

  test('links that go round in a circle, and paths through a file', () => {
    symlinkSync(at('b'), at('a'));
    symlinkSync(at('a'), at('b'));
    expect(() => check({ dataDir: at('a/x') })).toThrow(/form a loop \(ELOOP\)/);
    expect(() => check({ dataDir: at('config/ambit.yaml/x') })).toThrow(/not a folder \(ENOTDIR\)/);
  });

  test('the secret that webhooks are signed with', () => {
    const config = (secretFile: string) =>
      copyFrozen({ ...configWith(at('work')), events: { webhook: { url: 'http://h/', secretFile } } });
    const places = { configFile: at('config/ambit.yaml'), dataDir: at('data') };
    expect(() => assertOutOfReach({ ...places, config: config(at('work/secret')) })).toThrow(
      'events.webhook.secretFile',
    );
    expect(() => assertOutOfReach({ ...places, config: config(at('config/secret')) })).not.toThrow();
  });

  test('all of it at once, a line each, without control characters', () => {
    const error = (() => {
      try {
        check({ configFile: at('work/a\u001b.yaml'), dataDir: at('work/data') });
      } catch (cause) {
        return String((cause as Error).message);
      }
    })();
    expect(error?.split('\n')).toHaveLength(2);
    expect(error).toContain('a\\u001b.yaml');
  });
});

test('the stations of a path are its links and its end', () => {
  symlinkSync('config', at('one'));
  symlinkSync(at('one'), at('two'));
  expect(resolveSymlinks(at('two/ambit.yaml'))).toEqual([at('two'), at('one'), at('config/ambit.yaml')]);
  expect(resolveSymlinks(at('two/new/file'))).toEqual([at('two'), at('one'), at('config/new/file')]);
});

test('the key of credentials lies out of reach too', () => {
  const config = (keyFile: string) => copyFrozen({ ...configWith(at('work')), credentials: { keyFile } }) as Config;
  const places = { configFile: at('config/ambit.yaml'), dataDir: at('data') };
  expect(() => assertOutOfReach({ ...places, config: config(at('config/key')) })).not.toThrow();
  expect(() => assertOutOfReach({ ...places, config: config(at('work/inner/key')) })).toThrow(
    'set its new path with credentials.keyFile',
  );
});
