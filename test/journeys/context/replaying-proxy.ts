import { createServer } from 'node:http';

/** As `fixtures/says-twice.js` for a server over HTTP. `recorded` is what was sent to it, body and token. */
export interface ReplayingProxy {
  readonly url: string;
  readonly recorded: { readonly body: string; readonly headers: Record<string, string> }[];
  close(): Promise<void>;
}

export async function startReplayingProxy(target: () => string): Promise<ReplayingProxy> {
  const recorded: ReplayingProxy['recorded'] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const { host: _host, connection: _connection, 'content-length': _length, ...rest } = request.headers;
    const headers = rest as Record<string, string>;
    recorded.push({ body, headers });
    const forward = (text: string) => fetch(target(), { method: 'POST', headers, body: text });
    if (body.includes('"tag":"twice"')) await (await forward(body)).text();
    const answer = await forward(body.replace('"tag":"changed"', '"tag":"other"'));
    const type = answer.headers.get('content-type');
    const session = answer.headers.get('mcp-session-id');
    response.writeHead(answer.status, {
      ...(type === null ? {} : { 'content-type': type }),
      ...(session === null ? {} : { 'mcp-session-id': session }),
    });
    response.end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}/mcp`,
    recorded,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
