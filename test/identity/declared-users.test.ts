import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';

const load = (governance: string) =>
  loadConfig({ text: `version: 1\ngovernance: ${governance}\n`, file: '/etc/ambit/ambit.yaml' });

test('users and teams are declared in the configuration', async () => {
  const { config, warnings } = await load(
    '{ organisation: Acme, teams: [core], users: [{ name: "ada@acme.example", teams: [core] }, { name: eve }] }',
  );
  expect(warnings).toEqual([]);
  expect(config.governance).toMatchObject({
    organisation: 'Acme',
    teams: ['core'],
    users: [
      { name: 'ada@acme.example', teams: ['core'] },
      { name: 'eve', teams: [] },
    ],
  });
});

test.each([
  ['{ users: [{ name: ada, teams: [core] }] }', 'governance.users[0].teams[0]: this team is not listed in "teams"'],
  ['{ users: [{ name: ada }, { name: ada }] }', 'governance.users[1].name: another user already has this name'],
  ['{ users: [{ name: anonymous }] }', 'reserved for anonymous callers'],
  ['{ users: [{ name: "a b" }] }', 'expected up to 128'],
  ['{ teams: ["a b"] }', 'expected up to 64'],
  ['{ users: [{ name: ada, key: ambk_x }] }', 'key'],
])('%s is refused', async (governance, says) => {
  await expect(load(governance)).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    message: expect.stringContaining(says),
  });
});
