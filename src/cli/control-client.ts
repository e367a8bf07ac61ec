import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { dirname } from 'node:path';
import { assertPrivate, controlSocketPath } from '../entrances/control/socket-path.ts';
import { AmbitError, type ErrorCode, errorTable, isAmbitError } from '../errors.ts';
import type { Invocation } from './command.ts';
import { placesOf } from './places.ts';

/** Asks the running gateway of this configuration, through its control socket; without one, the store itself. */
export async function askGateway<T>(invocation: Invocation, method: string, path: string, body?: unknown): Promise<T> {
  const answer = await askSocket(invocation, method, path, body).catch(async (error: unknown) => {
    if (!isAmbitError(error) || error.code !== 'GATEWAY_UNREACHABLE') throw error;
    // A gateway takes longer to load than the question takes: only for those who need it.
    const { askStore } = await import('./ask-store.ts');
    return askStore(invocation, { method, path, body: body === undefined ? undefined : JSON.stringify(body) });
  });
  if (answer.status < 400) return answer.body as T;
  const { code: word, detail, hint } = answer.body as { code?: string; detail?: string; hint?: string };
  const code = word !== undefined && word in errorTable ? (word as ErrorCode) : 'INTERNAL';
  throw new AmbitError(code, { ...(detail === undefined ? {} : { what: detail }), ...(hint ? { hint } : {}) });
}

async function askSocket(
  invocation: Invocation,
  method: string,
  path: string,
  body: unknown,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const { dataDir } = placesOf(invocation);
  const socketPath = controlSocketPath(dataDir, invocation.env);
  if (existsSync(dirname(socketPath))) assertPrivate(dirname(socketPath));
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const asking = request(
      {
        socketPath,
        method,
        path,
        headers: bytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': bytes.length },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
        response.on('error', reject);
      },
    );
    asking.on('error', (cause) => reject(new AmbitError('GATEWAY_UNREACHABLE', { cause })));
    asking.end(bytes);
  });
  return { status, body: text === '' ? {} : (JSON.parse(text) as unknown) };
}
