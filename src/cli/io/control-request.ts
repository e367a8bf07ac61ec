import { lstatSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import type { ControlRequest } from '../../entrances/control/handle-request.ts';
import type { AnswerOf, RequestOf, RouteName } from '../../entrances/control/routes.ts';
import { openSocketHandle, type SocketHandle } from '../../entrances/control/socket-path.ts';
import { AmbitError, type ErrorCode, errorTable, isAmbitError } from '../../errors.ts';
import type { Invocation } from '../command.ts';
import { announceGateway, findGateway, type GatewayTarget } from './find-gateway.ts';
import { watchReader } from './output.ts';
import { showProgress } from './progress.ts';

/** Sends a request to the running gateway through its control socket; without a gateway, answers it from the store. */
export async function controlRequest<Name extends RouteName>(
  invocation: Invocation,
  route: Name,
  parts: RequestOf<Name> = {},
): Promise<AnswerOf<Name>> {
  const request = composeRequest(route, parts);
  const target = await findGateway(invocation);
  const answering = sendToGateway(invocation, target, request).catch(async (error: unknown) => {
    if (!isUnreachable(error)) throw error;
    // Loaded late: a gateway takes longer to load than the request takes.
    const { offlineRequest } = await import('./offline-request.ts');
    return offlineRequest(invocation, target, request);
  });
  const answer = await showProgress('Waiting for an answer', answering);
  return readControlAnswer(answer) as AnswerOf<Name>;
}

/** Sends a request to the running gateway. Throws GATEWAY_UNREACHABLE if there is none. */
export async function runningGatewayRequest<Name extends RouteName>(
  invocation: Invocation,
  route: Name,
  parts: RequestOf<Name> = {},
): Promise<AnswerOf<Name>> {
  const answer = await sendToGateway(invocation, await findGateway(invocation), composeRequest(route, parts));
  return readControlAnswer(answer) as AnswerOf<Name>;
}

async function sendToGateway(
  invocation: Invocation,
  target: GatewayTarget,
  request: ControlRequest,
): Promise<SocketAnswer> {
  const answer = await requestOverSocket(target.socket, request);
  announceGateway(invocation, target);
  return answer;
}

export function isUnreachable(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'GATEWAY_UNREACHABLE';
}

export function composeRequest<Name extends RouteName>(
  route: Name,
  { id = '', query, body }: RequestOf<Name>,
): ControlRequest {
  const [method = '', template = ''] = route.split(' ');
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  const path = `${template.replace('{id}', encodeReference(id))}${given.length === 0 ? '' : `?${search}`}`;
  return { method, path, body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)) };
}

/** Encodes a reference for a path. A session may have the name `ended`, which is also the last part of another path. */
function encodeReference(reference: string): string {
  return reference === 'ended' ? '%65nded' : encodeURIComponent(reference);
}

interface SocketAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Returns the body of an answer, or throws its problem as an error. */
export function readControlAnswer(answer: SocketAnswer): unknown {
  if (answer.status < 400) return answer.body;
  const { code: errorCode, detail, hint } = answer.body as { code?: string; detail?: string; hint?: string };
  const code = errorCode !== undefined && errorCode in errorTable ? (errorCode as ErrorCode) : 'INTERNAL';
  throw new AmbitError(code, { ...(detail === undefined ? {} : { what: detail }), ...(hint ? { hint } : {}) });
}

export async function requestOverSocket(
  socket: string,
  request: ControlRequest,
  signal?: AbortSignal,
): Promise<SocketAnswer> {
  return readWholeAnswer(await openOverSocket(socket, request, signal));
}

async function readWholeAnswer(response: IncomingMessage): Promise<SocketAnswer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return { status: response.statusCode ?? 0, body: text === '' ? {} : (JSON.parse(text) as unknown) };
}

/** Sends a request and resolves with the beginning of the answer. */
export async function openOverSocket(
  socket: string,
  { method, path, body }: ControlRequest,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  const handle = openControlSocket(socket);
  // Loaded late: it is not needed where there is no socket.
  const { request } = await import('node:http');
  return new Promise<IncomingMessage>((resolve, reject) => {
    const asking = request(
      {
        socketPath: handle.path,
        // A kept connection would be reused for the same path, which may lead elsewhere by then.
        agent: false,
        method,
        path,
        headers: body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length },
        ...(signal === undefined ? {} : { signal }),
      },
      resolve,
    );
    asking.on('error', (cause) => reject(new AmbitError('GATEWAY_UNREACHABLE', { cause })));
    asking.end(body);
  }).finally(handle.release);
}

/** A stream of the running gateway. It is closed when nobody reads stdout any more. */
export interface GatewayStream {
  /** The events until the stream is closed. Throws GATEWAY_UNREACHABLE if the connection to the gateway is lost. */
  readonly events: AsyncIterable<StreamedEvent>;
  /** Aborts when nobody reads stdout any more. */
  readonly readerGone: AbortSignal;
  close(): void;
}

interface StreamedEvent {
  readonly type: string;
  readonly data: string;
}

/** Opens a stream of the running gateway. Throws GATEWAY_UNREACHABLE if there is none. */
export async function openGatewayStream(invocation: Invocation, request: ControlRequest): Promise<GatewayStream> {
  const target = await findGateway(invocation);
  const response = await openOverSocket(target.socket, request);
  if (response.statusCode !== 200) readControlAnswer(await readWholeAnswer(response));
  announceGateway(invocation, target);
  const readerGone = watchReader();
  const close = () => void response.destroy();
  readerGone.addEventListener('abort', close);
  return { events: readEvents(response, readerGone), readerGone, close };
}

async function* readEvents(response: IncomingMessage, readerGone: AbortSignal): AsyncGenerator<StreamedEvent> {
  let open = '';
  try {
    response.setEncoding('utf8');
    for await (const chunk of response) {
      const events = (open + chunk).split('\n\n');
      open = events.pop() ?? '';
      for (const event of events) {
        // Only "\n" ends a line here: for an expression, other characters in the data would end it too.
        const lines = event.split('\n');
        const read = (field: string) => lines.find((line) => line.startsWith(field))?.slice(field.length);
        const [type, data] = [read('event: '), read('data: ')];
        if (type !== undefined && data !== undefined) yield { type, data };
      }
    }
  } catch {
    if (readerGone.aborted) return;
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: 'The connection to the gateway was lost.',
      hint: 'Look at it with "ambit status".',
    });
  }
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
