import type { IncomingMessage, ServerResponse } from 'node:http';
import { AmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { dropBody, readBody } from '../http/read-body.ts';
import { type LiveSource, type ServerLogAnswer, serveEvents, serveServerLog } from './event-streams.ts';
import { readProcessStart } from './gateway-registry.ts';
import { handleControlRequest, refuseRole } from './handle-request.ts';
import { type ControlAnswer, type ControlCaller, createProblem, hasRole } from './route.ts';
import { eventsPath, eventsRoute, isStreamAddress, stopPath, stopRoute, wantsActivity } from './routes.ts';

const bodyLimit = 256 * 1024;
/** The limits of open streams: in all, of viewers, of one role from one credential, and of one console. */
const [maxReaders, maxViewers, maxReadersOfOne, maxReadersOfConsole] = [128, 96, 64, 16];
/** Requests that change nothing, although they have a body. */
const questions = /\/explain$/;
/** A client that has not read an answer after this time is cut off. */
const maxReadingMs = 60_000;

export interface ControlApi {
  /**
   * Answers a request. If the caller has a credential, changes are recorded in the journal. `isAllowed` is asked once
   * more when the body has arrived, because the credential may be revoked meanwhile.
   */
  answer(
    request: IncomingMessage,
    response: ServerResponse,
    caller: ControlCaller,
    isAllowed?: () => Promise<boolean>,
  ): Promise<void>;
  /** Ends the open event streams. */
  close(): void;
}

/**
 * Serves the control API on the control socket or over HTTP. `address` is the address of the gateway, once it listens.
 * `onStop` ends the gateway; without it, requests to stop are refused.
 */
export function createControlApi(gateway: Gateway, address: () => string | undefined, onStop?: () => void): ControlApi {
  /** The readers of streams, with the credential and role of each. */
  const readers = new Map<ServerResponse, Pick<ControlCaller, 'role' | 'by' | 'consoleId'>>();

  function hasRoomFor({ role, by, consoleId }: ControlCaller): boolean {
    const ofRole = [...readers.values()].filter((each) => each.role === role);
    const ofOne = ofRole.filter((each) => each.by === by);
    // Links that one person gave to several people have the same credential.
    const ofConsole = ofOne.filter((each) => consoleId !== undefined && each.consoleId === consoleId);
    // Viewers leave places for admins, who have to see what goes on.
    const hasPlace = readers.size < maxReaders && (role === 'admin' || ofRole.length < maxViewers);
    return hasPlace && ofOne.length < maxReadersOfOne && ofConsole.length < maxReadersOfConsole;
  }

  /**
   * Records every request of an admin that changes something, however it ended, and every other request that was refused.
   * The lines of refusals are limited: a viewer, who may change nothing, must not fill the journal.
   */
  function recordOutcome(
    request: IncomingMessage,
    status: number,
    { by, role, consoleId, from }: ControlCaller,
    code?: string,
  ): void {
    const { method = 'GET', url = '/' } = request;
    const [path = ''] = url.split('?', 1);
    const isChange = method !== 'GET' && !questions.test(path);
    if (isChange && by !== undefined && role === 'admin') {
      gateway.recordControl({ by, method, path, status, consoleId });
    } else if (status >= 400) {
      const [entrance, who] = by === undefined ? (['control', 'control-socket'] as const) : (['http', by] as const);
      const where = { event: 'control', entrance, method, path, address: from } as const;
      gateway.recordRefusal({ ...where, status, code, by: who, consoleId });
    }
  }

  async function serveStream(
    request: IncomingMessage,
    response: ServerResponse,
    caller: ControlCaller,
    stream: () => Promise<void>,
  ): Promise<void> {
    dropBody(request, response, false);
    if (!hasRoomFor(caller)) {
      const { row, code, hint } = new AmbitError('OVERLOADED');
      recordOutcome(request, row.http, caller, code);
      sendAnswer(response, createProblem(row.http, code, 'Too many readers of events and logs are connected.', hint));
      return;
    }
    readers.set(response, caller);
    await stream().finally(() => readers.delete(response));
  }

  /** Sends the kept lines of a server, and then each new one. */
  async function followServerLog(
    request: IncomingMessage,
    response: ServerResponse,
    caller: ControlCaller,
  ): Promise<void> {
    const { method = 'GET', url: path = '/' } = request;
    const answer = await handleControlRequest(gateway, { method, path, body: undefined }, caller, address());
    // The reader has left, and its end is not told again.
    if (response.destroyed) return;
    if (answer.status !== 200) {
      recordOutcome(request, answer.status, caller, readProblemCode(answer));
      sendAnswer(response, answer);
      return;
    }
    await serveServerLog(gateway.running.serverLogs, answer.body as ServerLogAnswer, response);
  }

  /** Ends the gateway once the answer is sent. */
  function answerStop(request: IncomingMessage, response: ServerResponse, caller: ControlCaller): void {
    dropBody(request, response, false);
    if (onStop === undefined || !hasRole(caller, stopRoute.role)) {
      const { row, code } = new AmbitError('PERMISSION_DENIED');
      recordOutcome(request, row.http, caller, code);
      const hint = 'Run "ambit stop" as the user who started the gateway.';
      sendAnswer(response, createProblem(row.http, code, 'Only the control socket can end the gateway.', hint));
      return;
    }
    const { pid } = process;
    gateway.recordControl({ by: 'control-socket', method: 'POST', path: stopPath, status: 200 });
    response.once('close', onStop);
    const background = gateway.running.logFile !== undefined;
    const body = { stopping: true, pid, processStart: readProcessStart(pid) ?? null, background };
    sendAnswer(response, { status: 200, body }, { connection: 'close' });
  }

  return {
    async answer(request, response, caller, isAllowed = async () => true) {
      const { method = 'GET', url: path = '/' } = request;
      if (method === 'GET' && isStreamAddress(path)) {
        const isEvents = path.startsWith(eventsPath);
        if (isEvents && !hasRole(caller, eventsRoute.role)) {
          const refusal = refuseRole(caller);
          recordOutcome(request, refusal.status, caller, readProblemCode(refusal));
          dropBody(request, response, false);
          return sendAnswer(response, refusal);
        }
        return serveStream(request, response, caller, () =>
          isEvents
            ? serveEvents(gateway.lifecycle, request, response, {
                caller,
                ...(wantsActivity(path) ? { live: readLive(gateway) } : {}),
              })
            : followServerLog(request, response, caller),
        );
      }
      if (method === 'POST' && path === stopPath) return answerStop(request, response, caller);
      await waitForTurn(request, response);
      if (request.socket.destroyed) return;
      const body = await readBody(request, response, {
        maxBytes: bodyLimit,
        onGone: (listener) => response.on('close', listener),
      });
      if (body === 'broken off') return;
      if (typeof body === 'string') {
        recordOutcome(request, 413, caller);
        dropBody(request, response, false);
        const detail = `The body is longer than ${bodyLimit} bytes.`;
        sendAnswer(response, createProblem(413, 'REQUEST_INVALID', detail, 'Send a smaller body.'));
        return;
      }
      const answer = (await isAllowed())
        ? await handleControlRequest(gateway, { method, path, body, signal: signalOf(request) }, caller, address())
        : refuseCredential();
      recordOutcome(request, answer.status, caller, readProblemCode(answer));
      sendAnswer(response, answer);
    },
    close() {
      for (const response of readers.keys()) response.end();
    },
  };
}

const lastAnswers = new WeakMap<IncomingMessage['socket'], Promise<void>>();

/**
 * Waits until the answers to the earlier requests of the connection have been sent. A client that sends many requests at
 * once and reads nothing makes the gateway keep one answer, not all of them.
 */
async function waitForTurn({ socket }: IncomingMessage, response: ServerResponse): Promise<void> {
  const before = lastAnswers.get(socket);
  const sent = new Promise<void>((resolve) => {
    response.once('finish', resolve);
    response.once('close', resolve);
  });
  lastAnswers.set(socket, sent);
  await before;
}

const signals = new WeakMap<IncomingMessage['socket'], AbortSignal>();

/**
 * Returns the signal that the sender has left. It belongs to the connection: the end of a response tells nothing of the
 * requests that wait behind it.
 */
function signalOf({ socket }: IncomingMessage): AbortSignal {
  const known = signals.get(socket);
  if (known !== undefined) return known;
  const controller = new AbortController();
  if (socket.destroyed) controller.abort();
  else socket.once('close', () => controller.abort());
  signals.set(socket, controller.signal);
  return controller.signal;
}

/** Refuses a credential that was revoked or has expired while the body of its request arrived. */
function refuseCredential(): ControlAnswer {
  const { row, code } = new AmbitError('UNAUTHENTICATED');
  return createProblem(row.http, code, 'The credential is not valid any more.', 'Sign in again.');
}

function readLive({ running, live }: Gateway): LiveSource {
  const { activity, processCount: countProcesses } = running;
  return { activity, countProcesses, countSessions: () => live().sessions };
}

function readProblemCode({ body, isProblem }: ControlAnswer): string | undefined {
  return isProblem === true ? (body as { readonly code?: string }).code : undefined;
}

export function sendAnswer(
  response: ServerResponse,
  { status, body, isProblem }: ControlAnswer,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body));
  const type = isProblem ? 'application/problem+json' : 'application/json';
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers }).end(bytes);
  const cut = setTimeout(() => response.destroy(), maxReadingMs).unref();
  response.once('close', () => clearTimeout(cut));
}
