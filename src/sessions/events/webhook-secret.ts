import { createHmac, randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { privateSecret, readSecret } from '../../lib/fs/private-files.ts';

const prefix = 'whsec_';

/** What a webhook is signed with, as Standard Webhooks has it: `v1,` and the HMAC over id, time and body. */
export interface WebhookKey {
  sign(id: string, seconds: number, body: string): string;
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
