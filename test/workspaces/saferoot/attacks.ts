import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { SafeRootCode } from '../../../src/workspaces/saferoot/saferoot-error.ts';
import { makeFifo, type Scene } from './scene.ts';

/** Links, special files and names that someone with the run of the folder could leave in it. */
export async function layTraps(scene: Scene): Promise<void> {
  const inside = scene.inside;
  mkdirSync(inside('a/b'), { recursive: true });
  writeFileSync(inside('a/f.txt'), 'inside');
  const links: Record<string, string> = {
    'abs-file': scene.outside('f.txt'),
    'abs-folder': scene.outside(),
    'rel-file': '../outside/f.txt',
    'rel-folder': '../outside',
    'a/b/up': '../../..',
    'a/b/twice': 'up/outside',
    'to-root': '/',
    'to-self': '..',
    'to-proc': '/proc/self/root',
    'to-cwd': '/proc/self/cwd',
    'to-fd': '/proc/self/fd/0',
    'abs-inside': inside('a'),
    'loop-a': 'loop-b',
    'loop-b': 'loop-a',
    'loop-self': 'loop-self/x',
    dangling: '../outside/planted.txt',
    'dangling-abs': scene.outside('planted.txt'),
    'to-device': '/dev/zero',
    chain: 'chain-2',
    'chain-2': 'a/b/up/outside/f.txt',
    'up-and-back': 'a/../../ws/../outside/f.txt',
    evil: '../ws-evil/f.txt',
  };
  for (const [name, target] of Object.entries(links)) symlinkSync(target, inside(name));
  // A link that takes 2^20 steps if followed without a bound.
  symlinkSync('a', inside('d0'));
  for (let n = 1; n <= 20; n++) symlinkSync(`d${n - 1}/../d${n - 1}`, inside(`d${n}`));
  linkSync(scene.outside('f.txt'), inside('hard'));
  makeFifo(inside('pipe'));
  await makeSocket(join(scene.base, 's'), inside('socket'));
  if (isRoot) execFileSync('mknod', [inside('device'), 'c', '1', '5']);
}

const isRoot = process.getuid?.() === 0;

/** Node removes the name it listens on; a second name of the socket stays. */
async function makeSocket(first: string, second: string): Promise<void> {
  const server = createServer().listen(first);
  await once(server, 'listening');
  linkSync(first, second);
  server.close();
  await once(server, 'close');
}

/** Paths nothing may be read by, with the reason each must be given. */
export function listHostilePaths(scene: Scene): readonly (readonly [path: string, code: SafeRootCode])[] {
  return [
    ['../outside/f.txt', 'PATH_VIOLATION'],
    ['..', 'PATH_VIOLATION'],
    ['../', 'PATH_VIOLATION'],
    ['../ws', 'PATH_VIOLATION'],
    ['../ws/a/f.txt', 'PATH_VIOLATION'],
    ['../ws-evil/f.txt', 'PATH_VIOLATION'],
    ['a/../../outside/f.txt', 'PATH_VIOLATION'],
    ['a/b/../../../outside/f.txt', 'PATH_VIOLATION'],
    ['./../outside/f.txt', 'PATH_VIOLATION'],
    ['.//..//outside/f.txt', 'PATH_VIOLATION'],
    ['a/f.txt/../../../outside/f.txt', 'NOT_A_DIRECTORY'],
    ['missing/../../outside/f.txt', 'FILE_NOT_FOUND'],
    [scene.outside('f.txt'), 'PATH_VIOLATION'],
    [join(scene.base, 'ws-evil/f.txt'), 'PATH_VIOLATION'],
    [scene.inside('a/f.txt'), 'PATH_VIOLATION'],
    ['/etc/passwd', 'PATH_VIOLATION'],
    ['//etc/passwd', 'PATH_VIOLATION'],
    ['/proc/self/environ', 'PATH_VIOLATION'],
    ['/.vol/1/2', 'PATH_VIOLATION'],
    ['/.resolve/0/etc/passwd', 'PATH_VIOLATION'],
    ['/.nofollow/etc/passwd', 'PATH_VIOLATION'],
    ['abs-file', 'PATH_VIOLATION'],
    ['abs-folder/f.txt', 'PATH_VIOLATION'],
    ['rel-file', 'PATH_VIOLATION'],
    ['rel-folder/f.txt', 'PATH_VIOLATION'],
    ['rel-folder/folder/f.txt', 'PATH_VIOLATION'],
    ['a/b/up/outside/f.txt', 'PATH_VIOLATION'],
    ['a/b/twice/f.txt', 'PATH_VIOLATION'],
    ['to-root/etc/passwd', 'PATH_VIOLATION'],
    ['to-self/outside/f.txt', 'PATH_VIOLATION'],
    ['to-proc/etc/passwd', 'PATH_VIOLATION'],
    ['to-cwd/package.json', 'PATH_VIOLATION'],
    ['to-fd', 'PATH_VIOLATION'],
    ['abs-inside/f.txt', 'PATH_VIOLATION'],
    ['to-device', 'PATH_VIOLATION'],
    ['chain', 'PATH_VIOLATION'],
    ['up-and-back', 'PATH_VIOLATION'],
    ['evil', 'PATH_VIOLATION'],
    ['dangling', 'PATH_VIOLATION'],
    ['dangling-abs', 'PATH_VIOLATION'],
    ['loop-a', 'TOO_MANY_LINKS'],
    ['loop-a/x', 'TOO_MANY_LINKS'],
    ['loop-self', 'TOO_MANY_LINKS'],
    ['d20/f.txt', 'TOO_MANY_LINKS'],
    ['pipe', 'SPECIAL_FILE'],
    ['socket', 'SPECIAL_FILE'],
    ['device', isRoot ? 'SPECIAL_FILE' : 'FILE_NOT_FOUND'],
    ['pipe/x', 'NOT_A_DIRECTORY'],
    ['pipe/..', 'NOT_A_DIRECTORY'],
    ['', 'PATH_INVALID'],
    ['\0', 'PATH_INVALID'],
    ['a/f.txt\0.png', 'PATH_INVALID'],
    ['../outside/f.txt\0', 'PATH_INVALID'],
    ['a\0/../../outside/f.txt', 'PATH_INVALID'],
    ['\ud800', 'PATH_INVALID'],
    ['a/\udc00f.txt', 'PATH_INVALID'],
    ['\ud800/../../outside/f.txt', 'PATH_INVALID'],
    ['n'.repeat(256), 'NAME_TOO_LONG'],
    ['é'.repeat(128), 'NAME_TOO_LONG'],
    [`${'x/'.repeat(3000)}f`, 'NAME_TOO_LONG'],
    [`${'../'.repeat(1300)}outside/f.txt`, 'PATH_VIOLATION'],
    [`${'a/../'.repeat(600)}../outside/f.txt`, 'TOO_DEEP'],
  ];
}

/** Paths that look hostile and are only odd names: they mean a file inside, which does not exist. */
export const oddNames: readonly string[] = [
  '%2e%2e/outside/f.txt',
  '..%2foutside%2ff.txt',
  '%2e%2e%2foutside/f.txt',
  '..%c0%afoutside/f.txt',
  '\uff0e\uff0e/outside/f.txt',
  '\u2025/outside/f.txt',
  '..\u2215outside',
  '..\\outside\\f.txt',
  '..\\..\\outside',
  'C:\\Windows',
  'a.txt:stream',
  'CON',
  '~/f.txt',
  '~root/.ssh',
  '$HOME/f.txt',
  '.../outside/f.txt',
  '.. /outside/f.txt',
  ' ../outside/f.txt',
  '..\u200b/outside/f.txt',
  '\u202etxt.f',
  '..\n/outside',
  'file:///etc/passwd',
  '-rf',
  '*',
  'proc/self/environ',
  '..namedfork/rsrc',
];
