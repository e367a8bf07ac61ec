import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { locateConfig, locateDataDir } from '../../../src/config/load/locate.ts';

const home = '/home/ann';

describe('the configuration file is', () => {
  test.each([
    ['what --config says', { flag: '/a.yaml', env: { AMBIT_CONFIG: '/b.yaml' } }, '/a.yaml'],
    ['what --config says, from the working directory', { flag: 'a.yaml', env: {} }, resolve('a.yaml')],
    ['what AMBIT_CONFIG says', { env: { AMBIT_CONFIG: '/b.yaml', XDG_CONFIG_HOME: '/xdg' } }, '/b.yaml'],
    ['in XDG_CONFIG_HOME', { env: { XDG_CONFIG_HOME: '/xdg' } }, '/xdg/ambit/ambit.yaml'],
    ['in ~/.config', { env: {} }, '/home/ann/.config/ambit/ambit.yaml'],
    [
      'in ~/.config when variables are empty',
      { env: { AMBIT_CONFIG: '', XDG_CONFIG_HOME: '' } },
      '/home/ann/.config/ambit/ambit.yaml',
    ],
    [
      'in ~/.config when XDG_CONFIG_HOME is relative',
      { env: { XDG_CONFIG_HOME: 'evil' } },
      '/home/ann/.config/ambit/ambit.yaml',
    ],
  ])('%s', (_, choice, expected) => {
    expect(locateConfig({ ...choice, home })).toBe(expected);
  });

  test('not the default when the flag is empty, as an unset shell variable leaves it', () => {
    expect(locateConfig({ flag: '', env: {}, home })).toBe(resolve('.'));
  });
});

describe('the data directory is', () => {
  const configFile = '/srv/team/ambit.yaml';
  const own = `team-${createHash('sha256').update('/srv/team').digest('hex').slice(0, 8)}`;
  test.each([
    ['what --data-dir says', { flag: '/d', env: { AMBIT_DATA_DIR: '/e' } }, '/d'],
    ['what AMBIT_DATA_DIR says', { env: { AMBIT_DATA_DIR: '/e' } }, '/e'],
    ['in XDG_STATE_HOME', { env: { XDG_STATE_HOME: '/state' } }, `/state/ambit/${own}`],
    [
      'in ~/.local/state',
      { env: { AMBIT_DATA_DIR: '', XDG_STATE_HOME: 'relative' } },
      `/home/ann/.local/state/ambit/${own}`,
    ],
  ])('%s', (_, choice, expected) => {
    expect(locateDataDir({ ...choice, configFile, home })).toBe(expected);
  });

  test('another one for another folder of the same name, and for the root', () => {
    const of = (file: string) => locateDataDir({ env: {}, configFile: file, home });
    expect(of('/a/team/ambit.yaml')).not.toBe(of('/b/team/ambit.yaml'));
    expect(of('/a/team/ambit.yaml')).toBe(of('/a/x/../team/other.yaml'));
    expect(of('/ambit.yaml')).toMatch(/\/ambit\/-[0-9a-f]{8}$/);
  });
});
