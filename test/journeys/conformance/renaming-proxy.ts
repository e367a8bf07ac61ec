import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { keepsConnections } from '../bearer-proxy.ts';

interface Named {
  name?: string;
  ref?: { type: string; name?: string };
}

/**
 * Stands before the address of all servers and plays a host that knows one server's tools under their short names: the
 * suite asks for `x`, Ambit is asked for `server__x`. Everything else passes as it is.
 */
export async function startRenamingProxy(
  target: string,
  token: string,
  server: string,
): Promise<{ url: string; stop(): void }> {
  const prefix = `${server}__`;
  const { hostname, port, pathname } = new URL(target);
  const front = createServer(keepsConnections, async (inbound, outbound) => {
    const body = await readAll(inbound);
    const { 'content-length': _, ...headers } = inbound.headers;
    headers.authorization = `Bearer ${token}`;
    const renamed = rename(body, prefix);
    const named = headers['mcp-name'];
    // Both must agree, or the disagreement that a scenario makes on purpose must stay one.
    if (renamed !== body && typeof named === 'string') headers['mcp-name'] = `${prefix}${named}`;
    const onward = request({ hostname, port, path: pathname, method: inbound.method, headers }, async (response) => {
      const { 'content-length': __, ...answered } = response.headers;
      if (!response.headers['content-type']?.includes('application/json')) {
        outbound.writeHead(response.statusCode ?? 502, response.headers);
        outbound.flushHeaders();
        response.pipe(outbound);
        return;
      }
      const text = (await readAll(response)).toString().replaceAll(`"name":"${prefix}`, '"name":"');
      outbound.writeHead(response.statusCode ?? 502, answered);
      outbound.end(text);
    });
    onward.on('error', () => outbound.destroy());
    outbound.on('close', () => onward.destroy());
    onward.end(renamed);
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(front.address() as AddressInfo).port}/mcp`,
    stop() {
      front.closeAllConnections();
      front.close();
    },
  };
}

function rename(body: Buffer, prefix: string): Buffer {
  let message: { method?: string; params?: Named };
  try {
    message = JSON.parse(body.toString());
  } catch {
    return body;
  }
  const params = message?.params;
  if (message?.method === 'tools/call' || message?.method === 'prompts/get') {
    if (typeof params?.name !== 'string') return body;
    params.name = prefix + params.name;
  } else if (params?.ref?.type === 'ref/prompt' && message.method === 'completion/complete') {
    params.ref.name = prefix + params.ref.name;
  } else return body;
  return Buffer.from(JSON.stringify(message));
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
