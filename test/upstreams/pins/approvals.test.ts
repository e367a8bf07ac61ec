import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';
import { createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { counts } from '../../proof.ts';
import { createProject, type Project } from './project.ts';

let project: Project;
let server: ServerDefinition;
let file: string;
beforeEach(async () => {
  project = createProject();
  file = join(project.dataDir, 'approvals.json');
  server = await project.server({ command: 'node', args: ['-v'], env: { TOKEN: 'sk-secret' } });
});
afterEach(() => project.remove());

test('the file is private, whole, versioned, and holds no value of a variable', async () => {
  await project.approvals.approve(server);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const text = readFileSync(file, 'utf8');
  expect(JSON.parse(text)).toMatchObject({ version: 1, servers: { x: { pinned: { args: ['-v'] } } } });
  expect(text).not.toContain('sk-secret');
  expect(readdirSync(project.dataDir)).toEqual(['approvals.json']);
});

describe('a file that cannot be believed approves nothing and is not overwritten', () => {
  test.each<[string, () => void, RegExp]>([
    ['readable by others', () => chmodSync(file, 0o644), /mode 0644 instead of 0600/],
    ['writable by a group', () => chmodSync(file, 0o660), /mode 0660/],
    ['cut off', () => writeFileSync(file, readFileSync(file, 'utf8').slice(0, -20)), /not valid JSON/],
    ['of another version', () => writeFileSync(file, '{"version":2,"servers":{}}'), /expected form/],
    [
      'with keys nobody knows',
      () => writeFileSync(file, readFileSync(file, 'utf8').replace('"kind"', '"x":1,"kind"')),
      /expected form/,
    ],
    ['in a folder others may write to', () => chmodSync(project.dataDir, 0o777), /write to it/],
    [
      'a link',
      () => {
        const other = project.write('approvals.json', readFileSync(file, 'utf8'), 0o600);
        rmSync(file);
        symlinkSync(other, file);
      },
      /it is a symbolic link/,
    ],
  ])('%s', async (_, tamper, reason) => {
    await project.approvals.approve(server);
    tamper();
    const before = readFileSync(file, 'utf8');
    const verdict = project.approvals.check(server);
    expect(verdict).toMatchObject({ state: 'unapproved', changes: [{ line: expect.stringMatching(reason) }] });
    await expect(project.approvals.approve(server)).rejects.toThrow(reason);
    expect(readFileSync(file, 'utf8')).toBe(before);
  });

  test('with an entry that pins nothing', async () => {
    writeFileSync(file, JSON.stringify({ version: 1, servers: { x: { approvedAt: '', pinned: { kind: 'stdio' } } } }), {
      mode: 0o600,
    });
    expect(project.approvals.check(server).state).toBe('unapproved');
  });
});

test('concurrent approvals of several processes are all kept', async () => {
  const each = 15;
  const script = `
    import { createApprovals } from ${JSON.stringify(new URL('../../../build/upstreams/pins/approvals.js', import.meta.url).href)};
    const approvals = createApprovals({ dataDir: ${JSON.stringify(project.dataDir)} });
    const named = (name) => ({ name, source: 'project', folder: '/', kind: 'http', url: new URL('http://h/' + name), headers: {} });
    const names = Array.from({ length: ${each} }, (_, i) => process.argv[1] + i);
    await Promise.all(names.map((name) => approvals.approve(named(name))));
    for (const name of names) await approvals.pinTools(named(name), { tool: { description: name } });
  `;
  const marks = ['a', 'b', 'c', 'd'].slice(0, counts(2, 4));
  const processes = marks.map((mark) =>
    spawn(process.execPath, ['--input-type=module', '-e', script, mark], { stdio: 'inherit' }),
  );
  const codes = await Promise.all(processes.map(async (child) => (await once(child, 'exit'))[0] as number));
  expect(codes).toEqual(marks.map(() => 0));
  const listed = project.approvals.list();
  expect(listed).toHaveLength(marks.length * each);
  expect(listed.every(({ tools }) => tools === 1)).toBe(true);
  expect(readdirSync(project.dataDir)).toEqual(['approvals.json']);
});

test('a lock that a dead process left behind is not waited for', async () => {
  const lock = `${file}.lock`;
  writeFileSync(lock, '1 gone');
  const old = new Date(Date.now() - 60_000);
  utimesSync(lock, old, old);
  await project.approvals.approve(server);
  expect(project.approvals.check(server).state).toBe('approved');
});

test('other processes hear of an approval and its revocation, by name', async () => {
  const listening = createApprovals({ dataDir: project.dataDir });
  const heard: (readonly string[])[] = [];
  let wake = () => {};
  listening.onChange((names) => {
    heard.push(names);
    wake();
  });
  const next = () => new Promise<void>((resolve) => (wake = resolve));
  let told = next();
  await project.approvals.approve(server);
  await told;
  told = next();
  expect(await project.approvals.revoke('x')).toBe(true);
  await told;
  expect(heard).toEqual([['x'], ['x']]);
  expect(await project.approvals.revoke('x')).toBe(false);
  listening.close();
});
