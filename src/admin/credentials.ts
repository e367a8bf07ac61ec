import { z } from 'zod';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { readBody } from './sessions.ts';

export const nameShape = z.strictObject({
  userId: z.string(),
  server: z.string(),
  env: z.string().optional(),
  header: z.string().optional(),
});
export const credentialShape = z.strictObject({ ...nameShape.shape, value: z.string() });

export async function listCredentials(gateway: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { credentials: (await gateway.openAuth()).credentials.list() } };
}

export async function setCredential(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { value, ...which } = readBody(credentialShape, body);
  await (await gateway.openAuth()).credentials.set(which, value);
  return { status: 200, body: { ...which, set: true } };
}

export async function removeCredential(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const which = readBody(nameShape, body);
  return { status: 200, body: { ...which, removed: await (await gateway.openAuth()).credentials.remove(which) } };
}
