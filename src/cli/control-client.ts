import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { dirname } from 'node:path';
import { assertPrivate, controlSocketPath } from '../entrances/control/socket-path.ts';
import { AmbitError, type ErrorCode, errorTable, isAmbitError } from '../errors.ts';
import type { Invocation } from './command.ts';
import { placesOf } from './places.ts';

/** Asks the running gateway of this configuration, through its control socket. */
export async function askGateway<T>(invocation: Invocation, method: string, path: string, body?: unknown): Promise<T> {
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
  const answer = (text === '' ? {} : JSON.parse(text)) as { code?: string; detail?: string; hint?: string };
  if (status < 400) return answer as T;
  const code = answer.code !== undefined && answer.code in errorTable ? (answer.code as ErrorCode) : 'INTERNAL';
  throw new AmbitError(code, {
    ...(answer.detail === undefined ? {} : { what: answer.detail }),
    ...(answer.hint ? { hint: answer.hint } : {}),
  });
}

/** What the running gateway answers; where none is running, the same without one. */
export async function orWithout<T>(asking: () => Promise<T>, without: () => Promise<T>): Promise<T> {
  try {
    return await asking();
  } catch (error) {
    if (!isAmbitError(error) || error.code !== 'GATEWAY_UNREACHABLE') throw error;
  }
  return without();
}
