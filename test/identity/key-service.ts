import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface KeyQuestion {
  readonly key: string;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
}

/** Another system that has issued keys, with its callback over HTTP. It is gone with the test. */
export interface KeyService {
  readonly url: string;
  /** What it answers about each key; any other key is refused. */
  readonly keys: Map<string, unknown>;
  readonly asked: KeyQuestion[];
  /** Answers instead, once set. */
  answer: ((response: ServerResponse, question: KeyQuestion) => void) | undefined;
  close(): void;
}

export async function startKeyService(): Promise<KeyService> {
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join('');
    const question = { body, headers: request.headers, ...(JSON.parse(body) as { key: string }) };
    service.asked.push(question);
    if (service.answer !== undefined) service.answer(response, question);
    else if (service.keys.has(question.key)) response.end(JSON.stringify(service.keys.get(question.key)));
    else response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const service: KeyService = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/verify?tenant=planted-in-the-address`,
    keys: new Map(),
    asked: [],
    answer: undefined,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  onTestFinished(service.close);
  return service;
}
