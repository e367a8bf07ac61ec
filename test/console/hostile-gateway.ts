import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callModern } from '../journeys/json-mcp-client.ts';
import { type CreatedSession, type RunningAmbit, repository, startAmbit } from '../journeys/start-ambit.ts';
import { control } from './open-console.ts';

/** A text that tries everything: markup, links, reordering, invisible and control characters, heaps of marks, a shell. */
export const hostile = [
  'HURT <img src=x onerror="hurt=1"></script><script>hurt=1</script><svg onload=hurt=1>',
  '[x](javascript:hurt=1) javascript:hurt=1 &lt;b&gt; {{hurt}}',
  '\u202egpj.exe\u2066 \u200b\u2060\ufeff\u00ad \u001b[31mred\u001b[0m \u001b]0;x\u0007 \u0085\u2028',
  '\ufe00\ufe01 a\u{e0100} \u034f\u180b\u17b4\u2065\ufff0\u2800 \u115f\u1160\u3164\uffa0 \u{e0002}\u{e0041} ❤\ufe0f\ufe0f',
  `Z${'\u0335\u0341\u0316'.repeat(60)}Y ﷽ ${'W'.repeat(300)}`,
  "'; touch canary; ' $(touch canary) `touch canary` \"$(touch canary)\" \\'; touch canary #",
].join(' ');

/** A short one for names of files and keys. */
const short = "<img src=x onerror=hurt=1>\u202egpj\u200b'$(touch canary)";
/** The long one without invisible characters, which policies may not have. */
const printable = hostile.replace(/[\p{C}\p{Zl}]/gu, '');

/** A gateway whose agents, servers and users write hostile text wherever it is taken. */
export interface HostileGateway extends RunningAmbit {
  readonly live: CreatedSession;
  readonly ended: CreatedSession;
  /** Everything that no page may hold. */
  readonly secrets: ReadonlyMap<string, string>;
}

const environmentSecret = 'env-secret-5d41402abc4b2a76b9719d911017c592';
const headerSecret = 'header-secret-7d793037a0760186574b0282f2f435e7';
const credentialSecret = 'credential-secret-8277e0910d750195b448797616e091ad';

function writeConfig(files: string) {
  const command = process.execPath;
  return {
    sessions: { allowDirect: 'always' },
    servers: {
      mouth: {
        command,
        args: [join(repository, 'test/console/hostile-server.js'), join(files, 'text')],
        env: { MOUTH_TOKEN: environmentSecret },
      },
      broken: { command, args: ['-e', 'console.error(process.argv[1]); process.exit(3)', hostile] },
      away: { url: 'http://127.0.0.1:9/mcp', headers: { 'X-Token': headerSecret } },
      users: { url: 'http://127.0.0.1:9/mcp' },
    },
    rules: [{ id: 'no-hurt', deny: 'mouth__say', when: "args.word == 'deny'" }],
    workspaces: { garden: { path: join(files, 'garden'), isolation: 'copy', onEnd: 'keep' } },
    governance: {
      users: [{ name: 'ada' }],
      policies: [{ name: 'mind', scope: 'org', text: printable }],
      objectives: [{ text: printable }],
    },
  };
}

export async function startHostileGateway(): Promise<HostileGateway> {
  const files = await mkdtemp(join(tmpdir(), 'ambit-hostile-'));
  await mkdir(join(files, 'garden'));
  await writeFile(join(files, 'garden/plan.md'), `${hostile}\n`);
  await writeFile(join(files, 'text'), hostile);
  const ambit = await startAmbit(writeConfig(files));
  const ask = <T>(method: string, path: string, body?: unknown) => control<T>(ambit, method, path, body);
  const draft = { userId: 'ada', workspaceId: 'garden', task: hostile, metadata: { note: hostile } };
  const live = await ambit.session({ ...draft, name: 'live', agentId: 'agent-1' });
  const ended = await ambit.session({ ...draft, name: 'ended' });
  const key = await ask<{ key: string }>('POST', '/api/v1/keys', { userId: 'ada', trustLevel: 'sandboxed' });
  const call = async ({ token }: CreatedSession, tool: string, args: Record<string, unknown> = {}) => {
    await callModern(`${ambit.url}/mcp`, token, tool, args);
  };
  for (const session of [ended, live]) {
    await call(session, 'session_edit_file', { path: 'plan.md', content: `${hostile}\n${'x'.repeat(150_000)}` });
    await call(session, 'session_edit_file', { path: `${short}.md`, content: hostile });
    await call(session, 'session_state_set', { key: 'hurt', value: { [hostile]: hostile } });
    await call(session, 'session_state_set', { key: short, value: hostile });
  }
  await call(live, 'mouth__say', { word: hostile, [hostile]: hostile });
  await call(live, 'mouth__say', { word: 'deny' });
  await call(live, hostile.slice(0, 100), { word: hostile });
  await call(live, 'broken__x');
  await call(ended, 'session_send_message', { to: live.id, text: hostile });
  await call(live, 'session_send_message', { to: ended.id, text: hostile });
  await ask('DELETE', `/api/v1/sessions/${ended.id}`);
  await ask('POST', '/api/v1/policies', { scope: 'user:ada', name: 'other', mode: 'append', text: printable });
  await ask('POST', '/api/v1/objectives', { scope: 'org', text: printable });
  await ask('POST', '/api/v1/servers', { name: 'added', command: 'node', args: [hostile] });
  await ask('POST', '/api/v1/credentials', {
    userId: 'ada',
    server: 'users',
    header: 'X-User',
    value: credentialSecret,
  });
  const admin = (await readFile(join(ambit.dataDir, 'admin-token'), 'utf8')).trim();
  return {
    ...ambit,
    live,
    ended,
    secrets: new Map([
      ['admin token', admin],
      ['token of a session', live.token],
      ['token of an ended session', ended.token],
      ['API key', key.key],
      ['environment of a server', environmentSecret],
      ['header of a server', headerSecret],
      ['credential', credentialSecret],
    ]),
    async stop(signal) {
      const code = await ambit.stop(signal);
      await rm(files, { recursive: true, force: true });
      return code;
    },
  };
}
