import { z } from 'zod';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { readBody } from './sessions.ts';

export const whoseShape = z.strictObject({ userId: z.string(), server: z.string() });
export const startShape = z.strictObject({
  ...whoseShape.shape,
  /** Where a command waits for the browser on its own machine; without one the browser comes back to the gateway. */
  port: z.number().int().min(1).max(65_535).optional(),
});
export const callbackShape = z.strictObject({ ...whoseShape.shape, callback: z.string().max(16_384) });

export async function listLogins(gateway: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { logins: (await gateway.openAuth()).logins.list() } };
}

export async function startLogin(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { port, ...which } = readBody(startShape, body);
  return { status: 201, body: await (await gateway.openAuth()).logins.start(which, port) };
}

export async function completeLogin(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { callback, ...which } = readBody(callbackShape, body);
  return { status: 200, body: await (await gateway.openAuth()).logins.complete(callback, which) };
}

export async function removeLogin(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const which = readBody(whoseShape, body);
  return { status: 200, body: { ...which, removed: await (await gateway.openAuth()).logins.remove(which) } };
}
