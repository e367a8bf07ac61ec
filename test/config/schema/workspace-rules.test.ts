import { describe, expect, test } from 'vitest';
import { load, refusal } from '../load/loading.ts';

const servers = 'version: 1\nservers: { notes: { command: x }, search: { command: y } }\n';
const override = (name: string, value = 'v') =>
  `${servers}workspaces: { w: { path: /w, env: { notes: { ${name}: ${JSON.stringify(value)} } } } }\n`;

describe('P7: variables that a workspace sets for a server', () => {
  test.each(['AMBIT_SESSION_ID', 'AMBIT_TRUST_LEVEL', 'AMBIT_JWKS', 'ambit_trust_level', 'Ambit_User_Id'])(
    '%s is ours, and refused with its line',
    async (name) => {
      const [problem, ...others] = await refusal(override(name));
      expect(problem).toContain(`ambit.yaml:3:46 workspaces.w.env.notes.${name}: this name tells a server`);
      expect(others).toEqual([]);
    },
  );

  test('the names of further prefixes are ours as well', async () => {
    const text = override('PARACHUTE_WORKSPACE_ID');
    expect((await load(text)).warnings).toEqual([]);
    expect(await refusal(`${text}context: { envPrefixes: [AMBIT, PARACHUTE] }\n`)).toHaveLength(1);
  });

  test.each(['LD_PRELOAD', 'DYLD_INSERT_LIBRARIES', 'NODE_OPTIONS', 'PYTHONPATH', 'PATH', 'BASH_ENV', 'ld_preload'])(
    '%s decides what runs, and is refused',
    async (name) => {
      expect((await refusal(override(name)))[0]).toContain('run something else than its command');
    },
  );

  test('a line end in a value is refused, without the value', async () => {
    const [problem] = await refusal(override('FINE', 'secret\nLD_PRELOAD=x'));
    expect(problem).toContain('holds a line end');
    expect(problem).not.toContain('secret');
  });

  test('others are taken, those that only begin like ours included', async () => {
    const { config, warnings } = await load(override('PARACHUTE_VAULT_PATH', '/vault'));
    expect(config.workspaces['w']?.env).toEqual({ notes: { PARACHUTE_VAULT_PATH: '/vault' } });
    expect(warnings).toEqual([]);
  });
});

test('P7: a server that no one describes is a warning with its line: it can only narrow', async () => {
  const { config, warnings } = await load(
    `${servers}workspaces:\n  w:\n    path: /w\n    capabilities:\n      servers:\n        - notes\n        - serach\n    env: { note: { A: b } }\n`,
  );
  expect(warnings).toEqual([
    'ambit.yaml:9 workspaces.w.capabilities.servers[1]: there is no server "serach"; did you mean "search"?',
    'ambit.yaml:10 workspaces.w.env.note: there is no server "note"; did you mean "notes"?',
  ]);
  expect(config.workspaces['w']?.capabilities.servers).toEqual(['notes', 'serach']);
});

test('W7: a pattern for paths that cannot be read is refused: it would close nothing', async () => {
  const files = (pattern: string) =>
    `${servers}workspaces: { w: { path: /w, files: { hide: [${JSON.stringify(pattern)}] } } }\n`;
  for (const pattern of ['[secret', 'a{b,c', 'x\\', '{a,b}'.repeat(20), '\uff3bsecret']) {
    const [problem, ...others] = await refusal(files(pattern));
    expect(problem).toContain('workspaces.w.files.hide[0]: this is no glob');
    expect(others).toEqual([]);
  }
  expect((await load(files('secrets/**/{a,b}[0-9].json'))).warnings).toEqual([]);
});
