import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer as McpServerV2, Server } from '@modelcontextprotocol/server';
import { expect, expectTypeOf, test } from 'vitest';
import { createServerSessions, withSessions } from '../../../src/public/server/index.ts';

test('the servers of both SDKs are accepted and keep their types', () => {
  const sessions = createServerSessions({ context: { env: {} } });
  const v1 = withSessions(new McpServerV1({ name: 'one', version: '1' }), sessions);
  const v2 = withSessions(new McpServerV2({ name: 'two', version: '1' }), { tools: true, context: { env: {} } });
  const low = withSessions(new Server({ name: 'low', version: '1' }), sessions);
  expectTypeOf(v1).toEqualTypeOf<McpServerV1>();
  expectTypeOf(v2).toEqualTypeOf<McpServerV2>();
  expectTypeOf(low).toEqualTypeOf<Server>();
  expect(v1).toBeInstanceOf(McpServerV1);
  expect(v2).toBeInstanceOf(McpServerV2);
  expect(low).toBeInstanceOf(Server);
});
