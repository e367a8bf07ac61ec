import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { buildServer } from './fixtures/tools.js';

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Without sessions of the transport, as most HTTP servers run now: a server is built for each request. */
function createHandlerV1(options: () => object): Handler {
  return async (request, response) => {
    const server = buildServer(McpServerV1, options());
    const transport = new StreamableHTTPServerTransport({});
    response.on('close', () => server.close());
    await server.connect(transport as Parameters<typeof server.connect>[0]);
    await transport.handleRequest(request, response);
  };
}

function createHandlerV2(options: () => object): Handler {
  const handler = toNodeHandler(createMcpHandler(() => buildServer(McpServerV2, options())));
  return handler as Handler;
}

/** The fixture's tools on one SDK; it is told its own address, or the one it is known by, which is its audience. */
export async function startHttpServer(sdk: 'v1' | 'v2', keys: object, knownAs?: () => string) {
  let url = '';
  const options = () => ({ audience: knownAs?.() ?? url, keys });
  const handler = sdk === 'v1' ? createHandlerV1(options) : createHandlerV2(options);
  const server = createServer((request, response) => void handler(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as { port: number }).port}/mcp`;
  return {
    url,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
