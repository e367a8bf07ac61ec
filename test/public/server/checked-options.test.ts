import { afterEach, expect, test } from 'vitest';
import { createServerSessions, isAmbitError, type ServerSessionsOptions } from '../../../src/public/server/index.ts';
import { connectPipe } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function sessionsWith(options: ServerSessionsOptions = {}, env: Record<string, string> = {}) {
  const sessions = createServerSessions({ ...options, context: { ...options.context, env } });
  open.push(sessions);
  return sessions;
}

test.each([
  [{ AMBIT_SESSION_ID: '../../etc' }, /AMBIT_SESSION_ID must have 8 to 64/],
  [{ AMBIT_SESSION_ID: 'short' }, /AMBIT_SESSION_ID must have 8 to 64/],
  [{ AMBIT_USER_ID: 'two words' }, /AMBIT_USER_ID must be short/],
  [{ AMBIT_SESSION_TTL_SECONDS: '-1' }, /AMBIT_SESSION_TTL_SECONDS must be a whole number/],
  [{ AMBIT_SESSION_TTL_SECONDS: '90000' }, /has no effect/],
  [{ AMBIT_SESSION_INCLUDE_META: 'perhaps' }, /must be true or false/],
  [{ AMBIT_WORKSPACE_PATH: 'here' }, /AMBIT_WORKSPACE_PATH must be an absolute path/],
])('L2: an invalid environment is reported in the log and to the client: %o', async (env, reason) => {
  const lines: string[] = [];
  const log = { info() {}, warn: (event: string, fields?: object) => lines.push(JSON.stringify([event, fields])) };
  const caller = await connectPipe('v2', sessionsWith({ log }, env as Record<string, string>));
  expect(lines).toEqual([expect.stringMatching(reason)]);
  const refused = await caller.call('whoami');
  expect(refused.error).toMatchObject({ code: 'CONFIG_INVALID' });
  expect(refused.text).toMatch(reason);
  await caller.close();
});

test.each([
  { local: { trustLevel: 'root' as never } },
  { local: { userId: 'two words' } },
  { local: { agentId: '' } },
  { local: { id: '../../etc' } },
  { local: { permissions: ['NOT A PERMISSION'] } },
  { ttlSeconds: 0 },
  { ttlSeconds: 100, maxLifetimeSeconds: 50 },
  { envPrefix: 'not a prefix' },
  { announceKeys: [''] },
  { workspaces: ['relative/path'] },
  { workspaces: ['/srv/Not A Slug'] },
  { workspaces: [{ id: 'one' }, { id: 'one' }] },
  { workspaces: '/srv/*/deep' },
  { workspaces: [{ id: 'one', trust: 'root' as never }] },
  { governance: { policies: [{ name: 'no spaces here', text: 'x' }] } },
  { files: { fileBytes: -1 } },
  { files: { backend: 'floppy' as never } },
] satisfies ServerSessionsOptions[])('an invalid option is refused at the start, with a code: %j', (options) => {
  try {
    createServerSessions({ ...options, context: { env: {} } });
  } catch (error) {
    expect(isAmbitError(error) && error.code).toMatch(/^(?:CONFIG|REQUEST)_INVALID$/);
    return;
  }
  throw new Error('was accepted');
});

test('a session is opened with the checks of the gateway', async () => {
  const sessions = sessionsWith();
  for (const draft of [
    { trustLevel: 'root' as never },
    { userId: 'two words' },
    { agentId: '-' },
    { name: ' ' },
    { workspaceId: '../up' },
    { ttlSeconds: 1.5 },
    { permissions: ['NO'] },
    { id: 'short' },
    { metadata: { ['k'.repeat(65)]: 1 } },
  ]) {
    await expect(sessions.open(draft)).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  }
  await expect(sessions.open({ metadata: { note: 'x'.repeat(20_000) } })).rejects.toMatchObject({
    code: 'METADATA_TOO_LARGE',
  });
  const { id, trustLevel } = await sessions.open({ trustLevel: 'trusted' as never });
  expect(trustLevel).toBe('direct');
  expect(await sessions.restrict(id, { trustLevel: 'sandbox' as never })).toMatchObject({ trustLevel: 'sandboxed' });
  await expect(sessions.restrict('never-there-0', {})).rejects.toMatchObject({
    code: 'SESSION_NOT_FOUND',
    hint: expect.not.stringContaining('ambit session'),
  });
});

test('L2: id, workspace and the prefix of the environment are options', async () => {
  const env = { STAC_MCP_SESSION_ID: 'from-stac-mcp', STAC_MCP_USER_ID: 'ada', AMBIT_USER_ID: 'not-this-one' };
  const prefixed = await connectPipe('v2', sessionsWith({ envPrefix: 'STAC_MCP' }, env));
  expect((await prefixed.call('whoami')).value).toMatchObject({ sessionId: 'from-stac-mcp', userId: 'ada' });
  await prefixed.close();
  const given = await connectPipe('v2', sessionsWith({ local: { id: 'from-an-option', workspace: '/srv/garden' } }));
  expect((await given.call('whoami')).value).toMatchObject({
    sessionId: 'from-an-option',
    workspaceId: 'garden',
    workspacePath: '/srv/garden',
  });
  await given.close();
});
