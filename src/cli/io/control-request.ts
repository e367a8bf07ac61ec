import { lstatSync } from 'node:fs';
import type { ControlRequest } from '../../entrances/control/handle-request.ts';
import type { AnswerOf, RequestOf, RouteName } from '../../entrances/control/routes.ts';
import { openSocketHandle, type SocketHandle } from '../../entrances/control/socket-path.ts';
import { AmbitError, type ErrorCode, errorTable, isAmbitError } from '../../errors.ts';
import type { Invocation } from '../command.ts';
import { announceGateway, findGateway } from './find-gateway.ts';
import { showProgress } from './progress.ts';

/** Sends a request to the running gateway through its control socket; without a gateway, answers it from the store. */
export async function controlRequest<Name extends RouteName>(
  invocation: Invocation,
  route: Name,
  { id = '', query, body }: RequestOf<Name> = {},
): Promise<AnswerOf<Name>> {
  const [method = '', template = ''] = route.split(' ');
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  const path = `${template.replace('{id}', encodeURIComponent(id))}${given.length === 0 ? '' : `?${search}`}`;
  const request = { method, path, body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)) };
  const target = await findGateway(invocation);
  const answering = requestOverSocket(target.socket, request).then(
    (answered) => {
      announceGateway(invocation, target);
      return answered;
    },
    async (error: unknown) => {
      if (!isAmbitError(error) || error.code !== 'GATEWAY_UNREACHABLE') throw error;
      // Loaded late: a gateway takes longer to load than the request takes.
      const { offlineRequest } = await import('./offline-request.ts');
      return offlineRequest(invocation, target, request);
    },
  );
  const answer = await showProgress('Waiting for an answer', answering);
  if (answer.status < 400) return answer.body as AnswerOf<Name>;
  const { code: errorCode, detail, hint } = answer.body as { code?: string; detail?: string; hint?: string };
  const code = errorCode !== undefined && errorCode in errorTable ? (errorCode as ErrorCode) : 'INTERNAL';
  throw new AmbitError(code, { ...(detail === undefined ? {} : { what: detail }), ...(hint ? { hint } : {}) });
}

async function requestOverSocket(
  socket: string,
  { method, path, body }: ControlRequest,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const handle = openControlSocket(socket);
  // Loaded late: it is not needed where there is no socket.
  const { request } = await import('node:http');
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const asking = request(
      {
        socketPath: handle.path,
        // A kept connection would be reused for the same path, which may lead elsewhere by then.
        agent: false,
        method,
        path,
        headers: body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
        response.on('error', reject);
      },
    );
    asking.on('error', (cause) => reject(new AmbitError('GATEWAY_UNREACHABLE', { cause })));
    asking.end(body);
  }).finally(handle.release);
  return { status, body: text === '' ? {} : (JSON.parse(text) as unknown) };
}

function openControlSocket(socket: string): SocketHandle {
  try {
    const handle = openSocketHandle(socket);
    const stats = lstatSync(handle.path, { throwIfNoEntry: false });
    if (stats?.isSocket() && stats.uid === (process.getuid?.() ?? stats.uid)) return handle;
    handle.release();
  } catch (cause) {
    throw isAmbitError(cause) ? cause : new AmbitError('GATEWAY_UNREACHABLE', { cause });
  }
  throw new AmbitError('GATEWAY_UNREACHABLE');
}
