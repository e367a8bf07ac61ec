import { appendFileSync, copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { diffDefinitions } from '../../../src/gateway/server-admin/describe-server.ts';
import { sendModern } from '../../journeys/raw-mcp-client.ts';
import { repository } from '../../journeys/start-ambit.ts';
import { type AdminGateway, openAdminGateway } from './admin-gateway.ts';

const foreign = (name: string) => join(repository, 'node_modules/@modelcontextprotocol', name, 'dist/index.js');
const read = { name: 'read', description: 'Reads.', inputSchema: { type: 'object' } };
const hidden = 'x'.repeat(5000);

let admin: AdminGateway;
const offer = () => join(admin.folder, 'offer.json');
const script = () => join(admin.folder, 'server.mjs');
const writeOffer = (...tools: unknown[]) => writeFileSync(offer(), JSON.stringify({ tools }));

beforeAll(async () => {
  admin = await openAdminGateway(`version: 1
servers:
  everything:
    command: node
    args: [${JSON.stringify(foreign('server-everything'))}, stdio]
    tools: { deny: ["get-env"], permissions: { echo: notes:read } }
  broken: { command: node, args: ["-e", "console.error('key sk-abcdefghijklmnopqrst'); process.exit(3)"] }
  remote: { url: "https://example.com/mcp?team=garden&key=k1", headers: { X-Key: v1 } }
workspaces: {}
`);
  copyFileSync(join(import.meta.dirname, '../../cli/commands/offered-server.js'), script());
  writeOffer(read);
  const files = { name: 'files', command: 'node', args: [foreign('server-filesystem'), admin.folder] };
  await admin.ask('POST /api/v1/servers', { body: files });
  const env = { OFFER: offer(), API_TOKEN: 'sk-secret' };
  const args = [script(), '--password', 'hunter2hunter2'];
  await admin.ask('POST /api/v1/servers', { body: { name: 'offered', command: 'node', args, env } });
});
afterAll(() => admin.close());

const review = (id: string) => admin.ask('POST /api/v1/servers/{id}/review', { id });
const show = (id: string) => admin.ask('GET /api/v1/servers/{id}', { id });
const check = (id: string) => admin.ask('POST /api/v1/servers/{id}/check', { id });
const approve = (id: string, seen: object) => admin.send('POST', `/servers/${id}/approve`, seen);

async function approveReviewed(id: string) {
  const { definitionHash, pinsHash, toolsHash } = await review(id);
  return approve(id, { definitionHash, pinsHash, toolsHash });
}

test('a check starts a foreign server once, and says why one does not start', async () => {
  const [everything, broken] = await Promise.all([check('everything'), check('broken')]);
  expect(everything).toMatchObject({ approval: 'not needed', transport: 'stdio', error: null, changes: [] });
  expect(everything.tools).toBeGreaterThan(5);
  expect(broken).toMatchObject({ tools: null, error: { code: 'UPSTREAM_FAILED' }, stderr: ['key [secret]'] });
  expect((await admin.send('POST', '/servers/files/check')).body.code).toBe('SERVER_NOT_APPROVED');
  expect((await admin.send('POST', '/servers/nobody/check')).status).toBe(404);
});

test('at most two checks run at the same time', async () => {
  const answers = await Promise.all([1, 2, 3].map(() => admin.send('POST', '/servers/broken/check')));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 503]);
});

test('a server is approved only as it was reviewed', async () => {
  const seen = await review('files');
  expect(seen).toMatchObject({ approval: 'unapproved', toolsHash: null, definition: { command: 'node' } });
  const other = '0'.repeat(64);
  for (const wrong of [{ definitionHash: other }, { pinsHash: other }]) {
    const { definitionHash, pinsHash } = { ...seen, ...wrong };
    const refused = await approve('files', { definitionHash, pinsHash });
    expect([refused.status, refused.body.code]).toEqual([409, 'APPROVAL_STALE']);
  }
  expect((await approve('files', { definitionHash: seen.definitionHash })).status).toBe(400);
  expect((await approveReviewed('files')).body).toEqual({ name: 'files', approval: 'approved' });
  expect((await check('files')).tools).toBeGreaterThan(5);
});

test('S3: a script that changes after the review is not approved', async () => {
  const { definitionHash, pinsHash } = await review('offered');
  copyFileSync(foreign('server-filesystem'), script());
  expect((await approve('offered', { definitionHash, pinsHash })).body.code).toBe('APPROVAL_STALE');
  copyFileSync(join(import.meta.dirname, '../../cli/commands/offered-server.js'), script());
  expect((await approve('offered', { definitionHash, pinsHash })).status).toBe(200);
});

test('tools that changed are shown with their state, and approved as they were reviewed', async () => {
  const opened = await admin.gateway.createSession({ trustLevel: 'direct' });
  const listed = await sendModern(`${admin.url}/mcp/offered`, opened.token, { method: 'tools/list' });
  expect(await listed.next()).toContain('Reads.');
  const pinned = await show('offered');
  expect(pinned.tools).toMatchObject([{ name: 'read', state: 'approved', description: 'Reads.' }]);
  writeOffer({ ...read, description: `Reads and sends. ${hidden}` }, { ...read, name: 'erase' });
  const changed = await review('offered');
  expect(changed.tools.map(({ tool, kind }) => `${tool} ${kind}`)).toEqual(['erase added', 'read changed']);
  expect(changed.tools[1]).toMatchObject({ isShortened: false, description: `Reads and sends. ${hidden}` });
  expect(changed.tools[1]?.parts).toEqual([
    {
      ...{ part: 'description', before: 'Reads.', after: `Reads and sends. ${hidden}`, note: null },
      diff: `@@ -1 +1 @@\n-Reads.\n+Reads and sends. ${hidden}\n`,
    },
  ]);
  expect(changed.tools[0]?.parts).toMatchObject([
    { part: 'description', before: null, after: 'Reads.', diff: '@@ -0,0 +1 @@\n+Reads.\n' },
    { part: 'inputSchema', before: null, note: null, diff: expect.stringContaining('+  "type": "object"\n') },
  ]);
  expect((await check('offered')).changes).toEqual(expect.arrayContaining([expect.stringContaining('description')]));
  const { definitionHash, pinsHash, toolsHash } = changed;
  const unseen = await approve('offered', { definitionHash, pinsHash, toolsHash: '0'.repeat(64) });
  expect(unseen.body.code).toBe('APPROVAL_STALE');
  // Changed once more: what is approved is what was shown.
  writeOffer({ ...read, description: 'Reads and deletes.' });
  expect((await approve('offered', { definitionHash, pinsHash, toolsHash })).status).toBe(200);
  expect((await review('offered')).tools.map(({ tool, kind }) => `${tool} ${kind}`)).toEqual([
    'erase removed',
    'read changed',
  ]);
});

test('S2: a schema that changed is shown in the review and in the lists of the server', async () => {
  await approveReviewed('offered');
  const tool = { ...read, description: 'Reads and deletes.' };
  writeOffer({
    ...tool,
    inputSchema: { type: 'object', properties: { send: { description: 'Send sk-abcdefghijklmnopqrst' } } },
  });
  const [changed, ...others] = (await review('offered')).tools;
  expect([changed?.changes, others]).toEqual([['tool read: inputSchema changed'], []]);
  expect(changed?.parts).toMatchObject([{ part: 'inputSchema', before: '{\n  "type": "object"\n}', note: null }]);
  expect(changed?.parts[0]?.diff).toContain('+      "description": "Send sk-abcdefghijklmnopqrst"\n');
  const { token } = await admin.gateway.createSession({ trustLevel: 'direct' });
  const answer = await sendModern(`${admin.url}/mcp/offered`, token, { method: 'tools/list' });
  expect(await answer.next()).not.toContain('Reads');
  const listed = (await show('offered')).tools.find(({ name }) => name === 'read');
  expect(listed).toMatchObject({ state: 'changed', parts: [{ part: 'inputSchema', note: null }] });
  // Everybody who may see servers sees this, so what looks like a credential is replaced.
  expect(listed?.parts[0]?.diff).toContain('+      "description": "Send [secret]"\n');
});

test('S2: what changed in a definition is shown line by line, without the values of variables and headers', async () => {
  expect((await review('offered')).definitionDiff).toBeNull();
  appendFileSync(script(), '// One line more.\n');
  const { definitionDiff } = await review('offered');
  expect(definitionDiff).toMatch(/^-file \S+server\.mjs \(sha256 \w{64}\)\n\+file \S+server\.mjs \(sha256 \w{64}\)$/m);
  expect(definitionDiff).not.toContain('sk-secret');
  await approveReviewed('offered');

  const folder = '/project';
  const stdio = { kind: 'stdio', folder, command: 'node', program: { path: '/bin/node', real: '/bin/node' } } as const;
  const before = { ...stdio, args: ['--token', 'first-1'], env: { A: 'h1', B: 'h2' }, files: [] };
  const after = { ...stdio, args: ['-v\n', '--token', 'second-2'], env: { A: 'h3', C: 'h2' }, files: [] };
  expect(diffDefinitions(before, before)).toBe('');
  expect(diffDefinitions(before, after).split('\n').slice(1, -1)).toEqual([
    ' command node',
    ' program /bin/node',
    '+argument -v\\u000a',
    ' argument --token',
    '-argument first-1',
    '-variable A',
    '-variable B',
    '+argument second-2',
    '+variable A (changed)',
    '+variable C',
  ]);
  const http = { kind: 'http', folder, url: 'https://example.com/mcp?key=one', headers: { X: 'h1' } } as const;
  expect(diffDefinitions(http, { ...http, url: 'https://example.com/mcp?key=two', headers: { X: 'h2' } })).toBe(
    [
      ...['@@ -1,2 +1,2 @@', '-url https://example.com/mcp?key=one', '-header X'],
      ...['+url https://example.com/mcp?key=two', '+header X (changed)', ''],
    ].join('\n'),
  );
});

test('no value of a variable, header, query or secret argument is shown, except in a review', async () => {
  const [offered, remote, everything] = [await show('offered'), await show('remote'), await show('everything')];
  expect(offered.definition).toMatchObject({ env: ['OFFER', 'API_TOKEN'], args: [script(), '--password', '…'] });
  expect(remote.definition).toEqual({
    kind: 'http',
    url: 'https://example.com/mcp?team=…&key=…',
    headers: ['X-Key'],
  });
  expect(everything.restrictions).toMatchObject({ deny: ['get-env'], permissions: { echo: 'notes:read' } });
  const reviewed = await review('offered');
  expect(reviewed.env).toEqual([
    { name: 'OFFER', value: offer() },
    { name: 'API_TOKEN', value: '…' },
  ]);
  expect(JSON.stringify([offered, remote])).not.toMatch(/hunter2|sk-secret|k1|v1|"garden/);
  expect(reviewed.definition).toMatchObject({ args: [script(), '--password', 'hunter2hunter2'] });
  expect(JSON.stringify(reviewed)).not.toContain('sk-secret');
  for (const tool of offered.tools) expect(tool.description?.length ?? 0).toBeLessThanOrEqual(2000);
});
