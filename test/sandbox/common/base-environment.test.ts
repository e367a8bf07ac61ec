import { expect, it } from 'vitest';
import { baseEnvironment } from '../../../src/sandbox/common/base-environment.ts';

const host = { PATH: '/bin', HOME: '/home/ada', LANG: 'C', SECRET: 's', NODE_OPTIONS: '--inspect', TMPDIR: '/tmp' };

it('takes three variables from the host, a private TMPDIR and what is configured', () => {
  expect(baseEnvironment(host, '/run/p1', { API: 'x' })).toEqual({
    PATH: '/bin',
    HOME: '/home/ada',
    LANG: 'C',
    TMPDIR: '/run/p1',
    API: 'x',
  });
});

it('leaves out what the host does not have', () => {
  expect(baseEnvironment({ PATH: '' }, '/run/p1', {})).toEqual({ TMPDIR: '/run/p1' });
});

it('lets the configuration decide, except about TMPDIR', () => {
  expect(baseEnvironment(host, '/run/p1', { PATH: '/opt/bin', NODE_OPTIONS: '', TMPDIR: '/tmp' })).toEqual({
    PATH: '/opt/bin',
    HOME: '/home/ada',
    LANG: 'C',
    NODE_OPTIONS: '',
    TMPDIR: '/run/p1',
  });
});
