import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { loadOrCreateSecret, readSecret } from '../../lib/fs/private-files.ts';
import { postJson } from '../../lib/net/post-json.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Lifecycle } from './lifecycle.ts';
import type { QueuedEvent, WebhookQueue } from './webhook-queue.ts';

const prefix = 'whsec_';

/** A secret that signs requests as in Standard Webhooks. */
interface WebhookKey {
  /** Returns `v1,` and the HMAC over id, time and body. */
  sign(id: string, seconds: number, body: string): string;
  /** Returns a short hash of a text that nobody can compute without the secret. */
  fingerprint(text: string): string;
}

/** Posts the changes that this process made to sessions, one event after the other. */
export interface Webhook {
  /** Sends waiting events for up to a second, and leaves the rest to the next process. */
  close(): Promise<void>;
}

export interface WebhookOptions {
  readonly url: string;
  readonly key: WebhookKey;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
  /** The pause after the first failure; each further one is twice as long. */
  readonly pauseMs?: number;
  /** An older event is given up. */
  readonly maxAgeMs?: number;
  readonly maxWaiting?: number;
  /** Keeps waiting events in files; without it they are in memory only. */
  readonly queue?: WebhookQueue;
  /** The interval at which events of gone processes are taken. */
  readonly takeEveryMs?: number;
}

interface PendingEvent extends QueuedEvent {
  /** Created at the first attempt and sent unchanged at every other. */
  body?: string;
}

const maxPauseMs = 60_000;
const closeTimeoutMs = 1000;

export function createWebhook(options: WebhookOptions): Webhook {
  const { key, lifecycle, log, queue, pauseMs = 500, maxAgeMs = 15 * 60_000 } = options;
  const { maxWaiting = 1000, takeEveryMs = 10_000 } = options;
  const url = new URL(options.url);
  // Only the host is logged: the rest of the address may be a secret.
  const { host } = url;
  const pending: PendingEvent[] = [];
  const aborter = new AbortController();
  let sending: Promise<void> | undefined;
  let closing = false;
  let dropped = 0;
  let endPause = () => {};

  async function postEvent(waiting: PendingEvent): Promise<string | undefined> {
    if (waiting.body === undefined) {
      const { type, at, ...data } = await lifecycle.describe(waiting.step);
      waiting.body = JSON.stringify({ type: `session.${type}`, timestamp: at, data });
    }
    const seconds = Math.floor(Date.now() / 1000);
    const headers = {
      'user-agent': 'ambit',
      'webhook-id': waiting.id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': key.sign(waiting.id, seconds, waiting.body),
    };
    const posted = await postJson(url, headers, waiting.body, aborter.signal);
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

  async function sendPending(): Promise<void> {
    // Deferred, so that no call waits for it.
    await new Promise((resolve) => setImmediate(resolve));
    for (let tries = 0; pending.length > 0; ) {
      const waiting = pending[0] as PendingEvent;
      const why = await postEvent(waiting);
      if (why !== undefined && aborter.signal.aborted) break;
      const old = Date.now() - waiting.step.at >= maxAgeMs;
      if (why === undefined || old) {
        const { type, sessionId: session } = waiting.step;
        if (why !== undefined) log.warn('webhook delivery failed; event dropped', { host, step: type, session, why });
        pending.shift();
        queue?.remove(waiting.id);
        tries = 0;
        continue;
      }
      if (tries++ === 0) log.warn('webhook delivery failed; retrying', { host, why });
      const ms = Math.min(pauseMs * 2 ** (tries - 1), maxPauseMs);
      await (closing ? pause(Math.min(ms, 100)) : pause(ms * (0.75 + Math.random() / 2)));
    }
    if (pending.length > 0) log.warn('webhook events not delivered before shutdown', { host, events: pending.length });
    sending = undefined;
  }

  function enqueue(event: QueuedEvent): boolean {
    if (pending.length >= maxWaiting) {
      if (dropped++ % maxWaiting === 0) log.warn('webhook too slow; events dropped', { host });
      return false;
    }
    pending.push({ ...event });
    sending ??= sendPending();
    return true;
  }

  function takeAbandoned(): void {
    for (const event of queue?.takeAbandoned() ?? []) if (!enqueue(event)) queue?.remove(event.id);
  }

  const stop = lifecycle.onStep((step) => {
    if (!step.here || aborter.signal.aborted) return;
    const event = { id: `evt_${randomBytes(12).toString('hex')}`, step };
    if (enqueue(event)) queue?.add(event);
  });
  takeAbandoned();
  const takeTimer = setInterval(takeAbandoned, takeEveryMs).unref();

  return {
    async close() {
      closing = true;
      clearInterval(takeTimer);
      endPause();
      await withTimeout(sending ?? Promise.resolve(), closeTimeoutMs).catch(() => {});
      stop();
      aborter.abort();
      endPause();
      await sending;
      queue?.close();
    },
  };
}

/** A file with a secret, and the key of the configuration that names it. */
interface SecretFile {
  readonly file: string;
  readonly key: string;
}

/** Opens the configured secret, or the secret in the file `own`, which is created on first use. */
export async function openWebhookKey(own: string, given: string | undefined, key: string): Promise<WebhookKey> {
  if (given !== undefined) return readWebhookKey({ file: given, key });
  const text = await loadOrCreateSecret(own, () => prefix + randomBytes(32).toString('base64'));
  return parseWebhookKey(text, { file: own, key });
}

export function readWebhookKey(from: SecretFile): WebhookKey {
  const text = readSecret(from.file);
  if (text !== undefined) return parseWebhookKey(text, from);
  throw new AmbitError('CONFIG_INVALID', { what: `${from.key}: there is no file ${from.file}.` });
}

function parseWebhookKey(text: string, { file, key }: SecretFile): WebhookKey {
  const base64 = text.startsWith(prefix) ? text.slice(prefix.length) : '';
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length < 24 || bytes.toString('base64').replace(/(?<!=)=+$/, '') !== base64.replace(/(?<!=)=+$/, '')) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `The secret in ${file} must be "${prefix}" followed by at least 24 bytes in base64.`,
      hint: `Remove ${key} to have one created.`,
    });
  }
  const hmac = (secret: Buffer, content: string) => createHmac('sha256', secret).update(content).digest();
  const forFingerprints = Buffer.from(hkdfSync('sha256', bytes, '', 'ambit fingerprints', 32));
  return {
    sign: (id, seconds, body) => `v1,${hmac(bytes, `${id}.${seconds}.${body}`).toString('base64')}`,
    fingerprint: (content) => hmac(forFingerprints, content).toString('hex').slice(0, 32),
  };
}
