import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Guard, Mount } from '../../../src/sandbox/common/confinement.ts';
import { createTmpRoot } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { createReaper } from '../../../src/sandbox/reaper/reaper.ts';
import {
  createSeatbeltProfile,
  createSeatbeltRunner,
  readSeatbeltProbe,
  seatbeltProbeScript,
  seatbeltProfile,
} from '../../../src/sandbox/seatbelt/seatbelt.ts';
import { ordinaryLimits } from '../bwrap/sandbox-harness.ts';

/** The rules in their order: `[allow or deny, what, …of which]`. */
function rulesOf(profile: string): string[][] {
  const text = profile.replace(/\n/g, ' ');
  const rules: string[][] = [];
  let depth = 0;
  let inString = false;
  let at = 0;
  for (let index = 0; index < text.length; index++) {
    const letter = text[index];
    if (inString && letter === '\\') index++;
    else if (letter === '"') inString = !inString;
    else if (!inString && letter === '(' && depth++ === 0) at = index;
    else if (!inString && letter === ')' && --depth === 0) {
      const rule = text.slice(at + 1, index);
      const [verb = '', what = ''] = rule.split(/\s+/);
      rules.push([verb, what, ...(rule.match(/\((?:[^()"]|"(?:[^"\\]|\\.)*")*\)/g) ?? [])]);
    }
  }
  expect([depth, inString]).toEqual([0, false]);
  return rules;
}

const rules = rulesOf(
  seatbeltProfile({ readable: ['/opt/server'], writable: [{ path: '/Users/a/ws' }], tmpDir: '/private/t/p1' }),
);
const of = (verb: string, what: string) => rules.filter((rule) => rule[0] === verb && rule[1] === what);

test('everything is denied first, and nothing is allowed but what is named', () => {
  expect(rules.slice(0, 2)).toEqual([
    ['version', '1'],
    ['deny', 'default'],
  ]);
  const allowed = rules.filter(([verb]) => verb === 'allow').map(([, what]) => what);
  expect([...new Set(allowed)].sort()).toEqual(
    ['file-read*', 'file-read-metadata', 'file-write*', 'process-exec*', 'process-fork', 'process-info*'].concat(
      'signal',
      'sysctl-read',
    ),
  );
  // No network, no services of the system, no Apple events, no opening of programs, no key chain.
  expect(JSON.stringify(rules)).not.toMatch(/network|mach-lookup|appleevent|lsopen|SecurityServer|iokit|allow default/);
});

test('writes go to the workspace and the private folder, reads to what was granted and the system', () => {
  expect(of('allow', 'file-write*')).toEqual([
    [
      ...['allow', 'file-write*', '(subpath "/Users/a/ws")', '(subpath "/private/t/p1")'],
      ...['(literal "/dev/null")', '(literal "/dev/zero")'],
    ],
  ]);
  const read = of('allow', 'file-read*').flat();
  expect(read).toEqual(expect.arrayContaining(['(subpath "/opt/server")', '(subpath "/Users/a/ws")']));
  for (const wide of [
    '/',
    '/Users',
    '/Users/a',
    '/private',
    '/private/var',
    '/private/t',
    '/opt',
    '/Library',
    '/System',
  ]) {
    expect(read).not.toContain(`(subpath "${wide}")`);
    expect(read).not.toContain(`(literal "${wide}")`);
  }
  // Whoever asks where it stands must be able to walk there.
  expect(of('allow', 'file-read-metadata').flat()).toEqual(
    expect.arrayContaining(['(literal "/")', '(literal "/Users")', '(literal "/Users/a")']),
  );
});

test('protected files in the workspace are denied after the rule that allows writing', () => {
  const kinds = rules.map(([verb, what]) => `${verb} ${what}`);
  expect(kinds.lastIndexOf('deny file-write*')).toBeGreaterThan(kinds.lastIndexOf('allow file-write*'));
  const denied = of('deny', 'file-write*').flat();
  for (const name of ['.mcp.json', '.git', '.vscode', '.envrc', 'AGENTS.md', '.github/workflows']) {
    expect(denied).toContain(`(subpath "/Users/a/ws/${name}")`);
  }
  expect(of('deny', 'file-write-unlink').flat()).toContain('(literal "/Users/a/ws/.git")');
  expect(of('deny', 'file-write-setugid')).toHaveLength(1);
});

test('S4: protected names hold in any folder, existing or not, in any case; the repository as configured', () => {
  const fits = (guard: Guard | undefined, path: string) => {
    const made = rulesOf(seatbeltProfile({ readable: [], writable: [{ path: '/a.b/ws', guard }], tmpDir: '/t' }));
    const denied = made.filter(([verb, what]) => verb === 'deny' && what === 'file-write*').flat();
    const expressions = denied.flatMap((rule) => /^\(regex #"(.*)"\)$/.exec(rule)?.[1] ?? []);
    return expressions.some((each) => new RegExp(each).test(path));
  };
  for (const path of [
    '.git',
    '.GIT/x',
    'sub/.git/config',
    'agents.md',
    'a/b/.vscode/x',
    'x.code-workspace',
    '.yarnrc.yml',
  ]) {
    expect(fits(undefined, `/a.b/ws/${path}`), path).toBe(true);
  }
  for (const path of ['/a.b/ws/x.git', '/a.b/ws/src/a.ts', '/aXb/ws/.git', '/a.b/ws/.github/x']) {
    expect(fits(undefined, path), path).toBe(false);
  }
  const write = { git: 'write', mayWrite: ([name]: readonly string[]) => name === 'AGENTS.md' } as const;
  for (const path of ['.git/HEAD', 'AGENTS.md']) expect(fits(write, `/a.b/ws/${path}`), path).toBe(false);
  for (const path of ['.git/hooks/x', '.git/commondir', '.git/config', '.git/modules/a/config', 'sub/.git/HEAD']) {
    expect(fits(write, `/a.b/ws/${path}`), path).toBe(true);
  }
});

test('a path cannot end its string and continue as a rule', () => {
  const evil = '/ws") (allow default) (subpath "/\\';
  const made = rulesOf(seatbeltProfile({ readable: [], writable: [], tmpDir: evil }));
  expect(made.map(([verb, what]) => `${verb} ${what}`)).not.toContain('allow default');
  expect(made.find((rule) => rule[1] === 'file-write*')).toContain(
    String.raw`(subpath "/ws\") (allow default) (subpath \"/\\")`,
  );
  for (const [path, why] of Object.entries({ '/a\nb': 'control characters', [evil]: 'quote' })) {
    expect(() => seatbeltProfile({ readable: [], writable: [{ path }], tmpDir: '/t' })).toThrow(why);
  }
});

test('paths are granted by their real path', () => {
  const toMount = (real: string): Mount => ({ source: real, target: `/named${real}` });
  const confinement = {
    home: toMount('/ws'),
    readable: [toMount('/r')],
    writable: [toMount('/w')],
    hidden: [],
    limits: ordinaryLimits,
  };
  const profile = createSeatbeltProfile(
    confinement,
    { program: '/n', mounts: [toMount('/s')], links: [], searched: [] },
    '/t/p',
  );
  expect(profile).not.toContain('/named');
  expect(profile).toContain('(subpath "/w")');
  expect(profile).toContain('(subpath "/s")');
});

test("S5: of what a program of Ambit's own may write, only what is named is read-only", () => {
  const deniedBy = (frozen: readonly string[]) =>
    rulesOf(seatbeltProfile({ readable: [], writable: [{ path: '/repo' }], frozen, tmpDir: '/t' })).filter(
      ([verb, what]) => verb === 'deny' && what === 'file-write*',
    );
  expect(deniedBy(['/repo/hooks'])).toEqual([['deny', 'file-write*', '(subpath "/repo/hooks")']]);
  expect(deniedBy([])).toEqual([]);
});

test('the probe reports only what was tried', () => {
  expect(seatbeltProbeScript('/o', 80)).toContain('127.0.0.1 80');
  expect(readSeatbeltProbe('')).toBeUndefined();
  expect(readSeatbeltProbe('finished\n')).toEqual({ noReadingOutside: true, noWritingOutside: true, noNetwork: true });
  expect(readSeatbeltProbe('outside: read\noutside: written\nnetwork: reached\nfinished\n')).toEqual({
    noReadingOutside: false,
    noWritingOutside: false,
    noNetwork: false,
  });
});

test.skipIf(process.platform === 'darwin')('elsewhere than on macOS it is refused, and nothing starts', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-seatbelt-')));
  const tmpRoot = await createTmpRoot(folder);
  const reaper = createReaper({ tmpRoot });
  await expect(createSeatbeltRunner({ reaper, tmpRoot }).probe()).rejects.toMatchObject({
    code: 'SANDBOX_UNAVAILABLE',
  });
  expect(reaper.pid).toBeUndefined();
  await reaper.close();
  rmSync(folder, { recursive: true, force: true });
});
