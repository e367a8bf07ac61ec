import { join } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import type { Webhook, WebhookOptions } from './webhook.ts';

/** Opens the webhook of the configuration, if it has one. */
export async function openWebhook(
  settings: Config['events']['webhook'],
  { dataDir, lifecycle, log }: Pick<WebhookOptions, 'lifecycle' | 'log'> & { readonly dataDir: string },
): Promise<Webhook | undefined> {
  if (settings === undefined) return undefined;
  const [{ openWebhookQueue }, { createWebhook, openWebhookKey }] = await Promise.all([
    import('./webhook-queue.ts'),
    import('./webhook.ts'),
  ]);
  const key = await openWebhookKey(join(dataDir, 'webhook-secret'), settings.secretFile);
  const queue = openWebhookQueue(join(dataDir, 'webhook'), log);
  return createWebhook({ url: settings.url, key, lifecycle, log, queue });
}
