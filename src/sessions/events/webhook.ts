import { createHmac, randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { within } from '../../lib/async/within.ts';
import { privateSecret, readSecret } from '../../lib/fs/private-secret.ts';
import { postJson } from '../../lib/net/post-json.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Lifecycle, Step } from './lifecycle.ts';
import type { WaitingEvent, WaitingEvents } from './webhook-queue.ts';

const prefix = 'whsec_';

/** What a webhook is signed with, as Standard Webhooks has it: `v1,` and the HMAC over id, time and body. */
interface WebhookKey {
  sign(id: string, seconds: number, body: string): string;
}

/** Posts what this process did to sessions, one event after the other, for as long as each is worth it. */
export interface Webhook {
  /** Sends what waits, within a second, and leaves the rest to whoever comes next. */
  close(): Promise<void>;
}

export interface WebhookOptions {
  readonly url: string;
  readonly key: WebhookKey;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  /** The first pause; each further one is twice as long. */
  readonly pauseMs?: number;
  /** How old an event may get before it is given up. */
  readonly worthMs?: number;
  readonly mostWaiting?: number;
  /** Where what waits is kept; without, in memory only. */
  readonly waiting?: WaitingEvents;
  /** How often it is looked for what processes have left that are gone. */
  readonly adoptMs?: number;
}

interface Waiting extends WaitingEvent {
  /** Made with the first attempt, and the same for every other. */
  body?: string;
}

const longestPauseMs = 60_000;
const farewellMs = 1000;

export function createWebhook(options: WebhookOptions): Webhook {
  const { key, lifecycle, log, waiting: kept, pauseMs = 500, worthMs = 15 * 60_000 } = options;
  const { mostWaiting = 1000, adoptMs = 10_000 } = options;
  const url = new URL(options.url);
  // The rest of the address may be a secret.
  const { host } = url;
  const queue: Waiting[] = [];
  const cut = new AbortController();
  let working: Promise<void> | undefined;
  let closing = false;
  let dropped = 0;
  let endPause = () => {};

  async function bodyOf(step: Step): Promise<string> {
    const { type, at, ...data } = await lifecycle.told(step);
    return JSON.stringify({ type: `session.${type}`, timestamp: at, data });
  }

  async function attempt(waiting: Waiting): Promise<string | undefined> {
    waiting.body ??= await bodyOf(waiting.step);
    const seconds = Math.floor(Date.now() / 1000);
    const headers = {
      'user-agent': 'ambit',
      'webhook-id': waiting.id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': key.sign(waiting.id, seconds, waiting.body),
    };
    const posted = await postJson(url, headers, waiting.body, cut.signal);
    return posted.taken ? undefined : posted.why;
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function work(): Promise<void> {
    // Not in the breath of whoever did it: no call waits for this.
    await new Promise((resolve) => setImmediate(resolve));
    for (let tries = 0; queue.length > 0; ) {
      const waiting = queue[0] as Waiting;
      const why = await attempt(waiting);
      if (why !== undefined && cut.signal.aborted) break;
      const old = Date.now() - waiting.step.at >= worthMs;
      if (why === undefined || old) {
        if (why !== undefined) lose(waiting.step, why);
        queue.shift();
        kept?.done(waiting.id);
        tries = 0;
        continue;
      }
      if (tries++ === 0) log.warn('a webhook did not take an event; it is tried again', { host, why });
      const ms = Math.min(pauseMs * 2 ** (tries - 1), longestPauseMs);
      await (closing ? pause(Math.min(ms, 100)) : pause(ms * (0.75 + Math.random() / 2)));
    }
    if (queue.length > 0) log.warn('a webhook was not told of the last events', { host, events: queue.length });
    working = undefined;
  }

  function lose({ type, sessionId }: Step, why: string): void {
    log.warn('a webhook was not told', { host, step: type, session: sessionId, why });
  }

  function add(event: WaitingEvent): boolean {
    if (queue.length >= mostWaiting) {
      if (dropped++ % mostWaiting === 0) log.warn('a webhook is too slow; events are left out', { host });
      return false;
    }
    queue.push({ ...event });
    working ??= work();
    return true;
  }

  function adopt(): void {
    for (const event of kept?.adopt() ?? []) if (!add(event)) kept?.done(event.id);
  }

  const stop = lifecycle.onStep((step) => {
    if (!step.here || cut.signal.aborted) return;
    const event = { id: `evt_${randomBytes(12).toString('hex')}`, step };
    if (add(event)) kept?.keep(event);
  });
  adopt();
  const adopting = setInterval(adopt, adoptMs).unref();

  return {
    async close() {
      closing = true;
      clearInterval(adopting);
      endPause();
      await within(working ?? Promise.resolve(), farewellMs).catch(() => {});
      stop();
      cut.abort();
      endPause();
      await working;
      kept?.close();
    },
  };
}

export async function openWebhookKey(own: string, given: string | undefined): Promise<WebhookKey> {
  const text =
    given === undefined
      ? await privateSecret(own, () => prefix + randomBytes(32).toString('base64'))
      : readSecret(given);
  if (text === undefined) {
    throw new AmbitError('CONFIG_INVALID', { what: `events.webhook.secretFile: there is no file ${given}.` });
  }
  const base64 = text.startsWith(prefix) ? text.slice(prefix.length) : '';
  const key = Buffer.from(base64, 'base64');
  if (key.length < 24 || key.toString('base64').replace(/(?<!=)=+$/, '') !== base64.replace(/(?<!=)=+$/, '')) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `The secret of the webhook in ${given ?? own} must be "${prefix}" and the base64 of 24 bytes or more.`,
      hint: 'Leave out events.webhook.secretFile, and one is made.',
    });
  }
  return {
    sign: (id, seconds, body) => `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`,
  };
}
