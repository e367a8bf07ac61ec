import type { McpServer } from '@modelcontextprotocol/server';
import type { OwnOptions, ServerSessions } from 'ambit-mcp/server';

export function buildParityServer(sdk: 'v1' | 'v2', given?: ServerSessions | OwnOptions): McpServer;
