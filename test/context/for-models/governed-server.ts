import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll } from 'vitest';
import { answersOf } from '../../fixtures/governed/answers.js';

type Kind = Parameters<typeof answersOf>[0];

/** The governed fixture over HTTP, in this process; one of each kind, for as long as the file runs. */
export function governedServers(): (kind: Kind) => Promise<string> {
  const servers = new Map<string, Promise<Server>>();
  afterAll(async () => {
    for (const each of servers.values()) {
      const server = await each;
      server.closeAllConnections();
      server.close();
    }
  });

  return async (kind) => {
    const key = JSON.stringify(kind);
    const starting = servers.get(key) ?? listening(kind);
    servers.set(key, starting);
    return `http://127.0.0.1:${((await starting).address() as AddressInfo).port}/mcp`;
  };
}

async function listening(kind: Kind): Promise<Server> {
  const answer = answersOf(kind);
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const said = await answer(JSON.parse(await text(request)) as object);
    if (said === undefined) return void response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json' }).end(said);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}
