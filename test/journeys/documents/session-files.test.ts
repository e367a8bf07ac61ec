import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { type Agent, type Args, readFiles, type Subject, startGateway, startLibrary } from './start-task-files.ts';

/**
 * What a task tracker asks for: every task has a session and a folder, and agents edit files only there, with tools that
 * take the session as an argument. Its requirements in its order, for the example on stdio and for a gateway.
 */
describe.each([
  ['library', startLibrary],
  ['gateway', startGateway],
] as const)('session-aware file tools of the %s', (_, start) => {
  let folder: string;
  let on: Subject;
  const at = (task: string, ...names: string[]) => join(folder, 'tasks', `task-${task}`, ...names);
  const call: Agent['call'] = (name, args) => on.agent.call(name, args);
  /** The tools for one task, as its agent uses them. */
  const inTask =
    (task: string, agent = on.agent) =>
    (tool: string, args: Args = {}) =>
      agent.call(`session_${tool}`, { session: `task#${task}`, ...args });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-tasks-'));
    for (const name of ['main', 'tasks', 'outside']) mkdirSync(join(folder, name));
    writeFileSync(join(folder, 'main/app.js'), 'of the main workspace\n');
    writeFileSync(join(folder, 'outside/secret.txt'), 'hidden treasure\n');
    on = await start(folder);
  });
  afterAll(async () => {
    await on?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const readOthers = (task: string) =>
    readFiles(folder, ['store', 'data'].map((name) => join(folder, name)).concat(at(task)));

  /** Links that somebody left in the folder of a task: to another task, to another folder, to a link, to themselves. */
  function plantLinks(task: string, other: string): void {
    symlinkSync(`../task-${other}`, at(task, 'beside'));
    symlinkSync(join(folder, 'outside'), at(task, 'absolute'));
    symlinkSync('absolute', at(task, 'twice'));
    symlinkSync('../../outside/secret.txt', at(task, 'one-file'));
    symlinkSync('circle', at(task, 'circle'));
  }

  describe('1. Session-aware tools', () => {
    test('W1: they mirror the usual operations, each takes the session, and the other tools are still there', async () => {
      const { tools } = await on.agent.client.listTools();
      const names = ['read_file', 'edit_file', 'delete_file', 'move_file', 'list_dir', 'file_search', 'grep_search'];
      for (const name of names) {
        const tool = tools.find((each) => each.name === `session_${name}`);
        expect(tool?.inputSchema.properties, name).toHaveProperty('session');
        expect(tool?.description, name).toMatch(/\w/);
      }
      expect(await call(on.ownTool, { task: '83' })).toMatchObject({ code: undefined });
    });

    test('W1: a call that names no session has no files, and changes nothing', async () => {
      const before = readOthers('none');
      for (const session of [{}, { session: 'current' }]) {
        const { code, text } = await call('session_edit_file', { ...session, path: 'app.js', content: 'x' });
        expect(code).toBe('WORKSPACE_REQUIRED');
        expect(text).toContain('session_list');
      }
      expect(readOthers('none')).toEqual(before);
    });

    test('W1: a task from its first file to its last', async () => {
      await on.open('10');
      const use = inTask('10');
      await use('edit_file', { path: 'src/app.js', content: 'const port = 80;\nlisten(port);\n' });
      const edits = [{ oldText: '= 80;', newText: '= 8080;' }];
      expect((await use('edit_file', { path: 'src/app.js', edits })).text).toContain('+const port = 8080;');
      expect((await use('read_file', { path: 'src/app.js' })).text).toBe('const port = 8080;\nlisten(port);\n');
      expect((await use('grep_search', { pattern: '= 8+' })).text).toBe('src/app.js\n1: const port = 8080;');
      expect((await use('file_search', { pattern: '*.js' })).text).toBe('src/app.js');
      await use('move_file', { from: 'src/app.js', to: 'lib/app.js' });
      expect((await use('list_dir')).text).toMatch(/^\.\/\nlib\/\n {2}app\.js .*\nsrc\/$/);
      expect(await use('delete_file', { path: 'lib' })).toMatchObject({ code: 'FOLDER_NOT_EMPTY' });
      await use('delete_file', { path: 'lib', recursive: true });
      expect(readdirSync(at('10'))).toEqual(['src']);
    });
  });

  describe('2. Session resolution and validation', () => {
    test('W2: by name, by id and by the beginning of the id', async () => {
      const id = await on.open('20');
      await inTask('20')('edit_file', { path: 'a.txt', content: 'found' });
      for (const session of ['task#20', id, id.slice(0, 12)]) {
        expect(await call('session_read_file', { session, path: 'a.txt' })).toMatchObject({ text: 'found' });
      }
    });

    test('W2, W8: missing, ended and foreign sessions get the same error, which says what to do', async () => {
      await on.open('22', 'bob');
      await on.open('21');
      await inTask('21')('edit_file', { path: 'a.txt', content: 'kept' });
      await inTask('21')('end');
      const wrong = [
        'task#21',
        'task#22',
        'task#99',
        'task#2',
        'task-20',
        '../task-20',
        'x'.repeat(5000),
        'task#20\u0000',
      ];
      const answers = await Promise.all(wrong.map((session) => call('session_read_file', { session, path: 'a.txt' })));
      // Similar names are suggested, but only of sessions that the caller may use.
      const suggestion = /; did you mean ([^?]+)\?/;
      const suggested = answers.flatMap(({ text }) => suggestion.exec(text)?.[1]?.split(', ') ?? []);
      expect(suggested).toContain('"task#20"');
      for (const name of ['"task#21"', '"task#22"']) expect(suggested).not.toContain(name);
      expect(new Set(answers.map(({ text }) => text.replace(suggestion, '.'))).size).toBe(1);
      expect(answers[0]).toMatchObject({ code: 'SESSION_NOT_FOUND', text: expect.stringContaining('session_list') });
      expect(await inTask('20')('read_file', { session: '', path: 'a.txt' })).toMatchObject({
        code: 'REQUEST_INVALID',
      });
      // The files outlive their session: a new one goes on with them.
      await on.open('21');
      expect(await inTask('21')('read_file', { path: 'a.txt' })).toMatchObject({ text: 'kept' });
    });
  });

  describe('3. Path resolution safety', () => {
    test('W3: relative paths start at the folder of the session, whatever their names are', async () => {
      await on.open('30');
      const use = inTask('30');
      const names = [
        'app.js',
        'two words',
        'ümläut/日本.txt',
        '%2e%2e',
        '#049',
        '-rf',
        'a\\b',
        '~',
        '...',
        'it\'s "so"',
      ];
      for (const path of names) {
        await use('edit_file', { path, content: path });
        expect(readFileSync(at('30', path), 'utf8')).toBe(path);
      }
      for (const path of ['./app.js', 'ümläut/../app.js', 'ümläut//..//./app.js']) {
        expect(await use('read_file', { path })).toMatchObject({ text: 'app.js', details: { path: 'app.js' } });
      }
      expect(readFileSync(join(folder, 'main/app.js'), 'utf8')).toBe('of the main workspace\n');
    });

    test('W3, W9: no path leads out, with any tool: not up, not absolute, not by links, not by odd names', async () => {
      await on.open('31');
      await on.open('32');
      const use = inTask('31');
      await inTask('32')('edit_file', { path: 'secret.txt', content: 'hidden treasure of another task' });
      await use('edit_file', { path: 'src/own.txt', content: 'own' });
      plantLinks('31', '32');
      const before = readOthers('31');
      const up = ['..', '../task-32/secret.txt', 'src/../../task-32/secret.txt', `${'../'.repeat(60)}etc/passwd`];
      const absolute = ['/etc/passwd', at('32', 'secret.txt'), join(folder, 'main/app.js')];
      const links = ['beside/secret.txt', 'absolute/secret.txt', 'twice/secret.txt'];
      const odd = [
        'src/own.txt\u0000.png',
        '\u0000',
        'n'.repeat(256),
        `${'d/'.repeat(130)}f`,
        `${'d/'.repeat(1500)}f`,
        'circle/x',
      ];
      for (const path of [...up, ...absolute, ...links, ...odd]) {
        const answers = await Promise.all([
          use('read_file', { path }),
          use('edit_file', { path, content: 'escaped' }),
          use('edit_file', { path, content: 'escaped', dryRun: true }),
          use('delete_file', { path, recursive: true }),
          use('move_file', { from: path, to: 'stolen.txt' }),
          use('move_file', { from: 'src/own.txt', to: path, overwrite: true }),
          use('file_info', { path }),
          use('list_dir', { path }),
          use('file_search', { path, pattern: '*' }),
          use('grep_search', { path, pattern: 'treasure' }),
        ]);
        // A deep path may also just not be there.
        const expected = odd.includes(path) ? /^(?:PATH_INVALID|FILE_NOT_FOUND)$/ : /^PATH_VIOLATION$/;
        for (const { code, text } of answers) {
          expect(code, `${path.slice(0, 80)}: ${text}`).toMatch(expected);
          expect(text).not.toContain('treasure');
        }
      }
      expect(await use('read_file', { path: 'one-file' })).toMatchObject({ code: 'PATH_VIOLATION' });
      expect(await use('edit_file', { path: 'one-file', content: 'x' })).toMatchObject({ code: 'PATH_VIOLATION' });
      expect((await use('grep_search', { pattern: 'treasure' })).text).toBe('No line matches.');
      // The link itself belongs to the task.
      expect(await use('delete_file', { path: 'beside' })).toMatchObject({ code: undefined });
      expect(readOthers('31')).toEqual(before);
      expect(readFileSync(at('31', 'src/own.txt'), 'utf8')).toBe('own');
    });

    test('W4: every resolution is recorded: what was asked for, what it led to, and the decision', async () => {
      await on.open('33');
      const use = inTask('33');
      await use('edit_file', { path: 'real.txt', content: 'x' });
      symlinkSync('real.txt', at('33', 'link.txt'));
      await use('read_file', { path: 'link.txt' });
      await use('read_file', { path: '../../33.txt' });
      await use('edit_file', { path: '.git/hooks/pre-33', content: 'x' });
      const find = (asked: string) => on.trace().filter((line) => line['asked'] === asked);
      const last = { tool: 'session_edit_file', decision: 'refused', code: 'PATH_PROTECTED' };
      await expect.poll(() => find('.git/hooks/pre-33').at(-1)).toMatchObject(last);
      expect(find('link.txt')).toMatchObject([
        { tool: 'session_read_file', resolved: 'real.txt', decision: 'allowed' },
      ]);
      expect(find('../../33.txt')).toMatchObject([{ decision: 'refused', code: 'PATH_VIOLATION' }]);
    });
  });

  describe('4. Workspace backend', () => {
    test('W6: changes are whole: parallel ones all count, and one that fails leaves nothing behind', async () => {
      await on.open('40');
      const use = inTask('40');
      const lines = Array.from({ length: 12 }, (_, i) => `line ${i};`);
      await use('edit_file', { path: 'a.txt', content: lines.join('\n') });
      await Promise.all(
        lines.map((oldText) => use('edit_file', { path: 'a.txt', edits: [{ oldText, newText: `${oldText} done` }] })),
      );
      const edited = lines.map((line) => `${line} done`).join('\n');
      expect((await use('read_file', { path: 'a.txt' })).text).toBe(edited);
      const edits = ['line 1; done', 'not there'].map((oldText) => ({ oldText, newText: 'lost' }));
      expect(await use('edit_file', { path: 'a.txt', edits })).toMatchObject({ code: 'EDIT_NO_MATCH' });
      expect(readFileSync(at('40', 'a.txt'), 'utf8')).toBe(edited);
      expect(readdirSync(at('40'))).toEqual(['a.txt']);
    });

    test('W6: large content is written at once and read in parts', async () => {
      await on.open('41');
      const use = inTask('41');
      const lines = Array.from({ length: 10_000 }, (_, i) => `line ${i + 1} of a large file, read in parts\n`);
      const content = lines.join('');
      await use('edit_file', { path: 'large.txt', content });
      let [read, next] = ['', 1 as unknown];
      while (next !== null) {
        const part = await use('read_file', { path: 'large.txt', startLine: next, maxBytes: 200_000 });
        read += part.details['content'];
        next = part.details['nextLine'];
      }
      expect(read === content).toBe(true);
    });

    test('W5: the same calls get the same answers when the files are in a database', async () => {
      await on.open('50');
      await on.open('42', 'bob');
      const steps: [string, Args][] = [
        ['edit_file', { path: 'src/a.txt', content: 'one\ntwo\n' }],
        ['edit_file', { path: 'src/a.txt', edits: [{ oldText: 'two', newText: 'three' }] }],
        ['read_file', { path: 'src/a.txt' }],
        ['grep_search', { pattern: 'thr' }],
        ['read_file', { path: '../task-50/src/a.txt' }],
        ['read_file', { path: 'src/b.txt' }],
        ['edit_file', { path: '.env', content: 'x' }],
        ['delete_file', { path: 'src' }],
        ['move_file', { from: 'src/a.txt', to: 'b.txt' }],
        ['file_search', { pattern: '**' }],
      ];
      for (const [tool, args] of steps) {
        const [here, there] = [await inTask('50')(tool, args), await inTask('42', on.bob)(tool, args)];
        expect(there.code).toBe(here.code);
        // A refusal of the database says "The path" instead of the path, so the words of refusals are not compared.
        if (here.code === undefined) expect(there.text).toBe(here.text);
      }
      expect(readFileSync(at('50', 'b.txt'), 'utf8')).toBe('one\nthree\n');
      expect(readOthers('50').filter((line) => line.includes('task-42'))).toEqual([]);
    });
  });

  describe('5. and 6. Schemas, errors and guidance for agents', () => {
    test('W8: wrong arguments are named, and every refusal has a code and leads to the right call', async () => {
      await on.open('60');
      const use = inTask('60');
      await use('edit_file', { path: 'src/index.ts', content: 'one\none\n' });
      const edit = (oldText: string) => ({ path: 'src/index.ts', edits: [{ oldText, newText: 'x' }] });
      const cases: [string, Args, string, string][] = [
        ['read_file', { file_path: 'src/index.ts' }, 'REQUEST_INVALID', '"file_path"'],
        ['edit_file', { path: 'a.txt', content: 7 }, 'REQUEST_INVALID', '"content"'],
        ['edit_file', { path: 'a.txt' }, 'REQUEST_INVALID', 'content'],
        ['read_file', { path: at('60', 'src/index.ts') }, 'PATH_VIOLATION', 'Use "src/index.ts".'],
        ['read_file', { path: '../other.ts' }, 'PATH_VIOLATION', 'session_list_dir'],
        ['read_file', { path: 'src/indx.ts' }, 'FILE_NOT_FOUND', 'session_list_dir'],
        ['read_file', { path: 'src' }, 'FILE_WRONG_KIND', 'session_list_dir'],
        ['edit_file', edit('two'), 'EDIT_NO_MATCH', 'session_read_file'],
        ['edit_file', edit('one'), 'EDIT_AMBIGUOUS', 'replaceAll'],
        ['move_file', { from: 'src/index.ts', to: 'src/index.ts/x' }, 'FILE_WRONG_KIND', ''],
      ];
      for (const [tool, args, code, hint] of cases) {
        const said = await use(tool, args);
        expect(said).toMatchObject({ code, text: expect.stringContaining(hint) });
        // Nothing tells where on the machine the folder lies.
        if (!String(args['path']).startsWith('/')) expect(said.text).not.toContain(folder);
      }
    });

    test('W7: secrets cannot be read, and what a person’s tools run cannot be written, by any name', async () => {
      await on.open('70');
      const use = inTask('70');
      mkdirSync(at('70', '.git/hooks'), { recursive: true });
      mkdirSync(at('70', 'deploy'));
      writeFileSync(at('70', '.git/config'), '[remote "origin"]\n\turl = https://ada:hunter2@example.com/x.git\n');
      for (const path of ['.env', 'deploy/.env', 'deploy/id_rsa']) writeFileSync(at('70', path), 'KEY=treasure\n');
      symlinkSync('.env', at('70', 'harmless.txt'));
      symlinkSync('.git/hooks', at('70', 'tools'));
      const refused = { code: 'PATH_PROTECTED' };
      const secrets = ['.env', './deploy/../.env', 'deploy/.env', '.ENV', '.env~', 'deploy/id_rsa', 'harmless.txt'];
      for (const path of secrets) {
        expect(await use('read_file', { path }), path).toMatchObject(refused);
        expect(await use('edit_file', { path, content: 'x' }), path).toMatchObject(refused);
      }
      const obeyed = ['.git/hooks/pre-commit', 'tools/pre-commit', '.git/config', '.vscode/tasks.json', 'AGENTS.md'];
      for (const path of obeyed) {
        expect(await use('edit_file', { path, content: 'x' }), path).toMatchObject(refused);
      }
      for (const from of ['.env', 'deploy', '.git']) {
        expect(await use('move_file', { from, to: 'plain' }), from).toMatchObject(refused);
      }
      expect(await use('delete_file', { path: '.git', recursive: true })).toMatchObject(refused);
      expect((await use('grep_search', { pattern: 'treasure|hunter2' })).text).toBe('No line matches.');
      expect((await use('list_dir')).text).toContain('.env (closed)');
      expect((await use('read_file', { path: '.git/config' })).text).not.toContain('hunter2');
      expect(readdirSync(at('70')).sort()).toEqual(['.env', '.git', 'deploy', 'harmless.txt', 'tools']);
      // That file operations are rate-limited is shown by the tests of quotas. The library has no quota unless one is set.
    });
  });

  describe('Advanced use cases', () => {
    test('W9: several agents with several tasks at once: each call lands in the task that it names', async () => {
      const numbers = ['71', '72', '80'];
      for (const task of numbers) await on.open(task);
      const agents = [on.agent, await on.join()];
      const all = agents.flatMap((agent, who) => numbers.map((task) => ({ task, who, use: inTask(task, agent) })));
      await Promise.all(
        all.flatMap(({ task, who, use }) =>
          [1, 2, 3].map((i) => use('edit_file', { path: `${who}/${i}.txt`, content: `task ${task}, agent ${who}` })),
        ),
      );
      for (const { task, who } of all) {
        const found = [1, 2, 3].map((i) => readFileSync(at(task, `${who}/${i}.txt`), 'utf8'));
        expect(found).toEqual(Array(3).fill(`task ${task}, agent ${who}`));
      }
      // Two agents on one file: who did not see the other's change is told.
      const { details } = await inTask('71')('read_file', { path: '0/1.txt' });
      await inTask('71', agents[1])('edit_file', { path: '0/1.txt', content: 'changed' });
      const stale = { path: '0/1.txt', content: 'lost', expectedSha256: details['sha256'] };
      expect(await inTask('71')('edit_file', stale)).toMatchObject({ code: 'FILE_CHANGED' });
      expect(await inTask('71', on.bob)('read_file', { path: '0/1.txt' })).toMatchObject({ code: 'SESSION_NOT_FOUND' });
    });
  });

  describe('Success metrics', () => {
    test('W3: no escape, whatever a path is made of', async () => {
      await on.open('81');
      const use = inTask('81');
      await use('edit_file', { path: 'src/own.txt', content: 'own' });
      plantLinks('81', '80');
      const before = readOthers('81');
      const names = ['..', '.', '', 'src', 'beside', 'absolute', 'twice', 'one-file', '~', '..\\..', '%2e%2e', '‥'];
      const part = fc.constantFrom(...names);
      const path = fc.tuple(fc.constantFrom('', '', '/', folder), fc.array(part, { minLength: 1, maxLength: 6 }));
      await fc.assert(
        fc.asyncProperty(path, async ([begin, parts]) => {
          const given = { path: `${begin}${parts.join('/')}` };
          const [read] = await Promise.all([
            use('read_file', given),
            use('edit_file', { ...given, content: 'escaped' }),
          ]);
          expect(read.text).not.toMatch(/treasure|of the main workspace/);
        }),
        { numRuns: counts(25, 2000) },
      );
      expect(readOthers('81')).toEqual(before);
    });
    // Less than 10 ms for a session is measured by the benchmarks, not here.
  });
});
