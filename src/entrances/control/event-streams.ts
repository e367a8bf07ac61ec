import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ServerLogs } from '../../gateway/server-activity.ts';
import type { ActivityTracker } from '../../gateway/session-activity.ts';
import type { Lifecycle } from '../../sessions/events/lifecycle.ts';
import { eventStreamHeaders } from '../http/answer.ts';
import { type ControlCaller, localCaller, showSession } from './route.ts';
import { showLogLine } from './routes/servers.ts';
import type { ActivityEventData, AnswerOf, GatewayEventData } from './routes.ts';

const retryMs = 2000;
const defaultTimes = { heartbeatMs: 15_000, stuckMs: 30_000, reportEveryMs: 1000 };
/** The most sessions of one report. The others follow in the next ones, those first that have waited for longest. */
const maxReported = 1000;

export type ServerLogAnswer = AnswerOf<'GET /api/v1/servers/{id}/logs'>;

/**
 * Streams the lines of a server to one reader: first those of the answer, then new ones. A slow reader delays nobody: it
 * misses the lines that are dropped meanwhile, and is told how many. Resolves when the reader has gone.
 */
export function serveServerLog(
  logs: ServerLogs,
  { server, sessionId, position: from, lines }: ServerLogAnswer,
  response: ServerResponse,
  heartbeatMs = defaultTimes.heartbeatMs,
): Promise<void> {
  let position = from;
  response.writeHead(200, eventStreamHeaders);
  // A reader of a silent server shall know that it is connected.
  response.flushHeaders();
  const send = (type: string, data: unknown) => response.write(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
  for (const line of lines) send('line', line);

  function pump(): void {
    while (!response.writableNeedDrain && !response.writableEnded) {
      const found = logs.next(server, position);
      if (found === undefined) return;
      position = found.line.number;
      if (found.dropped > 0) send('dropped', { count: found.dropped });
      if (sessionId === null || found.line.sessionId?.startsWith(sessionId)) send('line', showLogLine(found.line));
    }
  }

  const stop = logs.onLine(server, pump);
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': still here\n\n');
  }, heartbeatMs).unref();
  response.on('error', () => {});
  response.on('drain', pump);
  pump();
  return new Promise((resolve) => {
    response.on('close', () => {
      stop();
      clearInterval(heartbeat);
      resolve();
    });
  });
}

interface EventOptions {
  readonly heartbeatMs?: number;
  /** The reader; an admin unless given. */
  readonly caller?: ControlCaller;
  /** The time a reader gets to make room in its buffer. */
  readonly stuckMs?: number;
  /** Given for a reader that wants to hear what sessions do. */
  readonly live?: LiveSource;
  readonly reportEveryMs?: number;
}

/** Streams the events of sessions to one reader. Resolves when the reader has gone. */
export function serveEvents(
  lifecycle: Lifecycle,
  request: IncomingMessage,
  response: ServerResponse,
  options: EventOptions = {},
): Promise<void> {
  const { heartbeatMs, stuckMs, live, reportEveryMs, caller } = { ...defaultTimes, caller: localCaller, ...options };
  const given = request.headers['last-event-id'];
  let position = lifecycle.positionAfter(typeof given === 'string' && given !== '' ? given : undefined);
  let pumping = false;
  let gone = false;

  response.writeHead(200, eventStreamHeaders);
  response.write(`retry: ${retryMs}\n\n`);

  /** Waits until the reader has read. The stream of a reader that takes too long is closed. */
  function waitForDrain(): Promise<void> {
    return new Promise((resolve) => {
      const stuck = setTimeout(() => response.destroy(), stuckMs).unref();
      const resume = () => {
        clearTimeout(stuck);
        response.off('drain', resume);
        response.off('close', resume);
        resolve();
      };
      response.on('drain', resume);
      response.on('close', resume);
    });
  }

  async function pump(): Promise<void> {
    for (let step = lifecycle.next(position); step !== undefined && !gone; step = lifecycle.next(position)) {
      position = step.number;
      const event = await lifecycle.describe(step);
      const { session } = event;
      const data = JSON.stringify(session === undefined ? event : { ...event, session: showSession(session, caller) });
      const written = response.write(`id: ${lifecycle.idOf(step)}\nevent: ${step.type}\ndata: ${data}\n\n`);
      if (!written && !gone) await waitForDrain();
    }
    // No await stands between the last look and this line, so that no event is missed.
    pumping = false;
  }

  const startPump = () => {
    if (gone || pumping) return;
    pumping = true;
    void pump();
  };
  const stop = lifecycle.onStep(startPump);
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': still here\n\n');
  }, heartbeatMs).unref();
  const stopReports = live === undefined ? undefined : reportLive(live, response, { reportEveryMs, stuckMs });
  response.on('error', () => {});
  startPump();
  return new Promise((resolve) => {
    response.on('close', () => {
      gone = true;
      stop();
      stopReports?.();
      clearInterval(heartbeat);
      resolve();
    });
  });
}

/** The source of reports about what a gateway does. */
export interface LiveSource {
  readonly activity: Pick<ActivityTracker, 'lastChange' | 'changedSince' | 'totalCalls'>;
  countProcesses(): number;
  countSessions(): number;
}

/**
 * Reports to one reader what has changed since its last report. A reader that does not keep up misses reports, and then
 * gets the newest state. Returns a function that stops it.
 */
function reportLive(
  { activity, countProcesses, countSessions }: LiveSource,
  response: ServerResponse,
  { reportEveryMs, stuckMs }: { readonly reportEveryMs: number; readonly stuckMs: number },
): () => void {
  let seen = activity.lastChange();
  let [calls, since] = [activity.totalCalls(), performance.now()];
  let load = '';
  let fullSince: number | undefined;
  const send = (type: string, data: ActivityEventData | GatewayEventData) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);

  function reportLoad(at: string, now: number): void {
    const total = activity.totalCalls();
    const perSecond = now === since ? 0 : ((total - calls) * 1000) / (now - since);
    [calls, since] = [total, now];
    const callsPerSecond = Math.round(perSecond * 10) / 10;
    const present = { processes: countProcesses(), callsPerSecond, sessions: countSessions() };
    const text = JSON.stringify(present);
    if (text !== load) send('gateway', { at, ...present });
    load = text;
  }

  function report(): void {
    const now = performance.now();
    if (response.writableNeedDrain) {
      fullSince ??= now;
      if (now - fullSince >= stuckMs) response.destroy();
      return;
    }
    fullSince = undefined;
    const at = new Date().toISOString();
    reportLoad(at, now);
    const { sessions, change } = activity.changedSince(seen, maxReported);
    seen = change;
    if (sessions.length > 0) send('activity', { at, sessions });
  }

  report();
  const timer = setInterval(report, reportEveryMs).unref();
  return () => clearInterval(timer);
}
