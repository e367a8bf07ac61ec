import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createSharedData, type ServedGateway } from '../../gateway/shared-data.ts';
import { readFilesBelow } from '../../read-files.ts';
import { callModern, type PostAnswer, readOutcome } from '../json-mcp-client.ts';

const data = createSharedData();

interface Child {
  readonly id: string;
  readonly parentId: string;
  readonly token?: string;
}

async function serve(sessions: object = {}): Promise<ServedGateway> {
  const path = join(data.folder, 'garden');
  mkdirSync(path);
  return data.serve({ workspaces: { garden: { path } }, sessions: { defaultTrust: 'sandboxed', ...sessions } });
}

const openLead = (served: ServedGateway) =>
  served.open({ userId: 'ada', name: 'lead', workspaceId: 'garden', trustLevel: 'sandboxed' });
const call = (served: ServedGateway, token: string, name: string, args: object = {}) =>
  callModern(served.mcp('ambit'), token, name, { ...args });
const dataOf = (answer: PostAnswer) => answer.messages.at(-1)?.result?.['structuredContent'] as never;

async function createChild(served: ServedGateway, token: string, args: object = {}): Promise<Child> {
  const answer = await call(served, token, 'session_create', args);
  const child = dataOf(answer) as Child | undefined;
  if (child === undefined) throw new Error(answer.text);
  return child;
}

/** Everything that the gateway has written. */
const readDataFiles = () => [...readFilesBelow(data.dataDir).values()].join('\n');

describe('P13: the token of a child', () => {
  test('is had by the orchestrator, works for the child alone, and ends with the tree', async () => {
    const served = await serve();
    const lead = await openLead(served);
    const child = await createChild(served, lead.token, { name: 'worker' });
    expect(child).toMatchObject({ parentId: lead.id, name: 'worker' });
    expect(child).not.toHaveProperty('token');
    const token = await served.gateway.issueToken(child.id);
    expect(dataOf(await call(served, token, 'session_info'))).toMatchObject({
      session: { id: child.id, current: true },
    });
    for (const session of [lead.id, 'lead']) {
      expect(readOutcome(await call(served, token, 'session_info', { session }))).toBe('!SESSION_NOT_FOUND');
      expect(readOutcome(await call(served, token, 'session_end', { session }))).toBe('!SESSION_NOT_FOUND');
      expect(readOutcome(await call(served, token, 'session_create', { session }))).toBe('!SESSION_NOT_FOUND');
    }
    const grandchild = await createChild(served, token);
    const deepToken = await served.gateway.issueToken(grandchild.id);
    expect(readOutcome(await call(served, lead.token, 'session_end', { session: 'current' }))).not.toBe(
      '!SESSION_NOT_FOUND',
    );
    for (const each of [token, deepToken]) {
      expect(readOutcome(await call(served, each, 'session_info'))).toBe('!SESSION_ENDED');
    }
  });

  test('is in the answer only where agents may have it, and is written nowhere', async () => {
    const served = await serve({ children: { token: 'agent' } });
    const lead = await openLead(served);
    const { token = '', id } = await createChild(served, lead.token, { task: 'Find the token.' });
    expect(token).toMatch(/^ambs_/);
    expect(dataOf(await call(served, token, 'session_info'))).toMatchObject({ session: { id } });
    await call(served, lead.token, 'session_search', { query: token });
    await served.close();
    const written = readDataFiles();
    expect(written).toContain(id);
    const [, , secret = ''] = token.split('_');
    expect(written).not.toContain(secret);
    expect(written).not.toContain(lead.token.split('_')[2]);
  });

  test('the journal links child and parent, messages and reports, without their contents', async () => {
    const served = await serve();
    const lead = await openLead(served);
    const child = await createChild(served, lead.token, { name: 'worker', task: 'a-secret-task' });
    const token = await served.gateway.issueToken(child.id);
    const { messageId } = dataOf(
      await call(served, lead.token, 'session_send_message', { to: 'worker', text: 'a-secret-text' }),
    ) as { messageId: string };
    await call(served, token, 'session_report', { value: 'a-secret-value' });
    await served.close();
    const lines = data.journal().filter(({ kind }) => kind === 'session');
    expect(lines).toContainEqual(
      expect.objectContaining({ event: 'created', sessionId: child.id, parentId: lead.id, userId: 'ada' }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: 'message-sent',
        sessionId: lead.id,
        toSessionId: child.id,
        messageId,
        bytes: 13,
      }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({ event: 'reported', sessionId: child.id, parentId: lead.id, id: expect.any(String) }),
    );
    expect(JSON.stringify(data.journal())).not.toContain('a-secret-');
  });

  test('a gateway that ends answers those who wait', async () => {
    const served = await serve();
    const lead = await openLead(served);
    const waiting = call(served, lead.token, 'session_inbox', { waitSeconds: 50 });
    const countWaits = async () => (await served.gateway.usage(lead.id))?.calls;
    await expect.poll(countWaits).toBe(1);
    served.gateway.stopWaiting();
    expect(dataOf(await waiting)).toEqual({ messages: [], next: null });
  });

  test('a parent whose concurrent calls are used up can still end the children that hold them', async () => {
    const served = await serve();
    const lead = await openLead(served);
    const child = await createChild(served, lead.token, { name: 'greedy' });
    const { sessions } = served.gateway;
    const greedy = await sessions.load(child.id);
    if (greedy === undefined) throw new Error('the child is gone');
    const held = await Promise.all(Array.from({ length: 64 }, async () => sessions.acquire(greedy, true)));
    expect(readOutcome(await call(served, lead.token, 'session_info'))).toBe('!QUOTA_EXCEEDED');
    expect(readOutcome(await call(served, lead.token, 'session_end', { session: 'greedy' }))).not.toContain('!');
    for (const grant of held) await grant.owner.release(grant, true, 0);
    expect(readOutcome(await call(served, lead.token, 'session_info'))).not.toContain('!');
  });

  test('a key of the same user with narrower limits neither finds nor writes to what is beyond them', async () => {
    const served = await serve({ defaultTrust: 'direct', allowDirect: 'always' });
    await served.gateway.people.users.add('ada');
    const direct = await served.open({
      userId: 'ada',
      name: 'direct-one',
      workspaceId: 'garden',
      trustLevel: 'direct',
    });
    const { key } = await served.gateway.people.keys.create({
      userId: 'ada',
      trustLevel: 'sandboxed',
      workspaces: ['garden'],
    });
    const session = 'current';
    const refused = await call(served, key, 'session_send_message', { session, to: 'direct-one', text: 'x' });
    expect(readOutcome(refused)).toBe('!SESSION_NOT_FOUND');
    expect(dataOf(await call(served, key, 'session_search', { session, query: 'direct-one' }))).toEqual({
      sessions: [],
    });
    expect(readOutcome(await call(served, key, 'session_inbox', { session: direct.id }))).toBe('!SESSION_NOT_FOUND');
    expect(readOutcome(await call(served, key, 'session_create', { session: direct.id }))).toBe('!SESSION_NOT_FOUND');
    const child = await createChild(served, key, { session });
    expect(child).toMatchObject({ trustLevel: 'sandboxed', workspaceId: 'garden' });
    expect(readOutcome(await call(served, key, 'session_create', { session, trust: 'direct' }))).toBe(
      '!TRUST_REQUIRED',
    );
  });
});
