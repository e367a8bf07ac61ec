import { join } from 'node:path';
import type { Config } from '../config/schema.ts';
import type { Log } from '../log.ts';
import type { Lifecycle } from './lifecycle.ts';
import { openWaitingEvents } from './waiting-events.ts';
import { createWebhook, type Webhook } from './webhook.ts';
import { openWebhookKey } from './webhook-secret.ts';

export interface OpenWebhookOptions {
  readonly dataDir: string;
  readonly lifecycle: Lifecycle;
  readonly log: Log;
}

/** The webhook that the configuration names, if it names one. */
export async function openWebhook(
  settings: Config['events']['webhook'],
  { dataDir, lifecycle, log }: OpenWebhookOptions,
): Promise<Webhook | undefined> {
  if (settings === undefined) return undefined;
  const key = await openWebhookKey(join(dataDir, 'webhook-secret'), settings.secretFile);
  const waiting = openWaitingEvents(join(dataDir, 'webhook'), log);
  return createWebhook({ url: settings.url, key, lifecycle, log, waiting });
}
