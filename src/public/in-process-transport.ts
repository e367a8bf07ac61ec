import { PassThrough } from 'node:stream';
import { serveStdio } from '../entrances/stdio/serve-stdio.ts';
import { AmbitError } from '../errors.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { readLines } from '../protocol/lines/read-lines.ts';

/** What the official SDK calls a transport, in both its versions. */
export interface McpTransport {
  start(): Promise<void>;
  send(message: unknown): Promise<void>;
  close(): Promise<void>;
  onmessage?: (message: never) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
}

/** A client of the same process, on the stdio entrance with pipes in memory. */
export function inProcessTransport(gateway: Gateway, sessionId: string, server: string): McpTransport {
  const input = new PassThrough();
  const output = new PassThrough();
  const transport: McpTransport = {
    async start() {
      if ((await gateway.sessions.load(sessionId)) === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      readLines(output, {
        maxBytes: gateway.config.limits.messageBytes,
        onLine: (line) => transport.onmessage?.(JSON.parse(line.toString('utf8')) as never),
        onTooLong: () => transport.onerror?.(new Error('the answer is too large')),
        onRunaway: () => output.destroy(),
      });
      void serveStdio({ gateway, server, sessionId, input, output }).finally(() => transport.onclose?.());
    },
    async send(message) {
      input.write(`${JSON.stringify(message)}\n`);
    },
    async close() {
      input.end();
      output.destroy();
    },
  };
  return transport;
}
