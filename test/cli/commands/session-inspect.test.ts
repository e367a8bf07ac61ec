import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InboxPage } from '../../../src/sessions/teams/messages.ts';
import { ambitInProcess, onlyStoreNote, openControlledGateway } from '../in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-inspect-'));
const file = join(folder, 'ambit.yaml');
const dataDir = join(folder, 'data');
const ambit = (...words: string[]) => ambitInProcess([...words, '--config', file, '--data-dir', dataDir]);

beforeAll(() => {
  writeFileSync(
    file,
    `version: 1
servers: { notes: { command: node, env: { TOKEN: hush }, tools: { permissions: { add: 'notes:write' }, deny: [purge] } } }
governance: { policies: [{ name: tone, text: Be kind. }] }
`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the values, rights, policies and messages of a session are shown below headings, at most 80 columns wide', async () => {
  await ambit('session', 'create', '--name', 'task', '--task', `weed ${'very carefully '.repeat(20)}`);
  const sent = await ambit('session', 'message', 'task', `Stop.\n${'Report what you have. '.repeat(10)}\u001b[31m`);
  expect(sent).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Message 1-[0-9a-f]{16} is in the inbox/) });
  const { code, stdout, stderr } = await ambit('session', 'inspect', 'task');
  expect({ code, stderr }).toEqual({ code: 0, stderr: onlyStoreNote });
  const headings = ['VALUES', 'SERVERS', 'PERMISSIONS', 'RESTRICTED TOOLS', 'POLICIES', 'STATE', 'INBOX'];
  expect(stdout.split('\n\n').map((section) => section.split('\n', 1)[0])).toEqual(headings);
  for (const line of [
    /^opened by +control API$/m,
    /^userId +local \(Ambit: default user\)$/m,
    /^trustLevel +sandboxed \(configuration: sessions\.defaultTrust\)$/m,
    /^notes +available/m,
    /^notes:write \(not held\)\n {2}for notes__add$/m,
    /^notes +\* +purge/m,
    /^tone +org +given$/m,
    /^No state\.$/m,
    /^1-[0-9a-f]{16} from the operator, \d+s ago\n {2}Stop\.\n {2}Report/m,
  ]) {
    expect(stdout).toMatch(line);
  }
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(stdout).not.toMatch(/hush|\u001b/);
});

test('a running gateway answers with the same as JSON, and a waiting agent gets the message', async () => {
  const { gateway, close } = await openControlledGateway(file, dataDir, { store: { kind: 'memory' } });
  try {
    const { session } = await gateway.openSession({ name: 'here' });
    const first = JSON.parse((await ambit('session', 'message', session.id, 'one', '--json')).stdout) as {
      messageId: string;
    };
    await ambit('session', 'message', session.id, 'two', '--reply-to', first.messageId);
    const { stdout } = await ambit('session', 'inspect', 'here', '--json');
    const found = JSON.parse(stdout) as { context: { sessionId: string } } & Pick<InboxPage, 'messages'>;
    expect(found.context.sessionId).toBe(session.id);
    expect(Object.keys(found)).toEqual(['context', 'policies', 'state', 'messages']);
    expect(found.messages.map(({ text, replyTo }) => [text, replyTo])).toEqual([
      ['one', null],
      ['two', first.messageId],
    ]);
  } finally {
    await close();
  }
});

test.each([
  [['session', 'message', 'task'], 2, 'TEXT is missing'],
  [['session', 'message', 'task', 'two', 'words'], 2, 'only one TEXT is expected'],
  [['session', 'message', 'nobody', 'x'], 1, 'There is no live session'],
  [['session', 'inspect', 'nobody'], 1, 'There is no live session'],
])('%j fails', async (words, code, text) => {
  expect(await ambit(...words)).toMatchObject({ code, stderr: expect.stringContaining(text) });
});
