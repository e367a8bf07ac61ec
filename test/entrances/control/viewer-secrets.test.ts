import { afterAll, beforeAll, expect, test } from 'vitest';
import { type AdminGateway, openAdminGateway } from '../../gateway/server-admin/admin-gateway.ts';

let admin: AdminGateway;
beforeAll(async () => {
  admin = await openAdminGateway('version: 1\n');
});
afterAll(() => admin.close());

/** Reads the events from the first one on until one names this session. */
async function readEvents(headers: Readonly<Record<string, string>>, id: string): Promise<string> {
  const { body } = await fetch(`${admin.url}/api/v1/events`, { headers: { ...headers, 'last-event-id': '0' } });
  let heard = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    heard += chunk;
    if (heard.includes(id) && heard.endsWith('\n\n')) break;
  }
  return heard;
}

test('a viewer sees no credential in the task or the metadata of a session, and an admin sees what was written', async () => {
  const metadata = {
    ticket: 'T-7',
    count: 3,
    login: [{ api_token: 'word-1', more: { pin: 1 } }],
    tokens: { ci: ['word-2', 2] },
    url: 'https://me:word-3@h.example/',
    nothing: null,
  };
  const task = 'Tidy up. password=word-4';
  const { id } = await admin.ask('POST /api/v1/sessions', { body: { name: 'tidy', task, metadata } });
  const viewer = await admin.signIn('viewer');
  const read = async (path: string, headers: Readonly<Record<string, string>>) => {
    const response = await fetch(`${admin.url}/api/v1${path}`, { headers });
    expect([path, response.status]).toEqual([path, 200]);
    return response.text();
  };
  const live = ['/sessions', `/sessions/${id}`, `/sessions/${id}/context`];
  for (const path of live) {
    expect(await read(path, viewer)).not.toContain('word-');
    expect(await read(path, admin.headers)).toContain('word-4');
  }
  expect(JSON.parse(await read(`/sessions/${id}`, viewer))).toMatchObject({
    name: 'tidy',
    task: 'Tidy up. password=[secret]',
    metadata: { ticket: 'T-7', count: 3, login: [{ api_token: '[secret]' }], tokens: { ci: ['[secret]', '[secret]'] } },
  });
  expect(await readEvents(viewer, id)).not.toContain('word-');
  expect(await readEvents(admin.headers, id)).toContain('word-4');
  await admin.ask('DELETE /api/v1/sessions/{id}', { id });
  expect(await read('/sessions/ended', viewer)).not.toContain('word-');
  expect(await read('/sessions/ended', admin.headers)).toContain('word-4');
});
