import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Lifecycle } from '../../sessions/events/lifecycle.ts';

const retryMs = 2000;

interface EventTimes {
  readonly heartbeatMs: number;
  /** How long a reader may take to make room. */
  readonly stuckMs: number;
}
const usualTimes: EventTimes = { heartbeatMs: 15_000, stuckMs: 30_000 };

/** A reader who is told what happens to sessions, for as long as they read. Resolves when they have gone. */
export function serveEvents(
  lifecycle: Lifecycle,
  request: IncomingMessage,
  response: ServerResponse,
  { heartbeatMs, stuckMs } = usualTimes,
): Promise<void> {
  const given = request.headers['last-event-id'];
  let position = lifecycle.positionAfter(typeof given === 'string' && given !== '' ? given : undefined);
  let pumping = false;
  let gone = false;

  response.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  response.write(`retry: ${retryMs}\n\n`);

  /** Whoever does not read is not waited for: what happens meanwhile is kept for a while, not for them alone. */
  function room(): Promise<void> {
    return new Promise((resolve) => {
      const stuck = setTimeout(() => response.destroy(), stuckMs).unref();
      const go = () => {
        clearTimeout(stuck);
        response.off('drain', go);
        response.off('close', go);
        resolve();
      };
      response.on('drain', go);
      response.on('close', go);
    });
  }

  async function pump(): Promise<void> {
    for (let step = lifecycle.next(position); step !== undefined && !gone; step = lifecycle.next(position)) {
      position = step.number;
      const data = JSON.stringify(await lifecycle.told(step));
      const written = response.write(`id: ${lifecycle.idOf(step)}\nevent: ${step.type}\ndata: ${data}\n\n`);
      if (!written && !gone) await room();
    }
    // In the same breath as the last look: what comes next finds nobody at work and begins anew.
    pumping = false;
  }

  const wake = () => {
    if (gone || pumping) return;
    pumping = true;
    void pump();
  };
  const stop = lifecycle.onStep(wake);
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(': still here\n\n');
  }, heartbeatMs).unref();
  response.on('error', () => {});
  wake();
  return new Promise((resolve) => {
    response.on('close', () => {
      gone = true;
      stop();
      clearInterval(heartbeat);
      resolve();
    });
  });
}
