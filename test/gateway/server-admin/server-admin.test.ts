import { expect, test } from 'vitest';
import { createServerAdmin } from '../../../src/gateway/server-admin/server-admin.ts';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';

type Parts = Parameters<typeof createServerAdmin>[0];

test('S7: details of two servers are read at once, readers take turns, and one reader has a limited number waiting', async () => {
  const read: string[] = [];
  const preview = async (server: Pick<ServerDefinition, 'name'>) => {
    read.push(server.name);
    await new Promise(setImmediate);
    throw new Error('this is as far as the test goes');
  };
  const servers = new Map(['asked', 'wanted'].map((name) => [name, { name } as ServerDefinition]));
  const parts = { servers: () => servers, approvals: { preview }, config: () => ({}), offers: () => [] };
  const admin = createServerAdmin(parts as unknown as Parts);
  const greedy = Array.from({ length: 30 }, () => admin.describe('asked', 'viewer', { reader: 'viewer ada' }));
  const other = admin.describe('wanted', 'admin', { reader: 'admin bob' });
  const all = await Promise.allSettled([...greedy, other]);
  const codes = all.map((each) => (each.status === 'rejected' ? each.reason.code : 'described'));
  expect(codes.filter((code) => code === 'OVERLOADED')).toHaveLength(12);
  expect(read).toHaveLength(19);
  expect(read.indexOf('wanted')).toBe(3);
});
