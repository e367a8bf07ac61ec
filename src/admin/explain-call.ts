import { z } from 'zod';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { heldSession, readBody } from './sessions.ts';

/** `args` is JSON as text: it is judged as it was written, not as somebody has read it. */
export const askedShape = z.strictObject({ tool: z.string(), args: z.string().optional() });

export async function explainCall(gateway: Operator, { parameter, body }: Asked): Promise<AdminAnswer> {
  const { tool, args } = readBody(askedShape, body);
  const session = await heldSession(gateway, parameter);
  return { status: 200, body: (await gateway.openAccess()).explainCall(session, tool, args) };
}
