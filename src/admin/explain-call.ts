import { z } from 'zod';
import type { Gateway } from '../gateway/gateway.ts';
import type { AdminAnswer } from './handle.ts';
import { foundSession, readBody } from './sessions.ts';

/** `args` is JSON as text: it is judged as it was written, not as somebody has read it. */
const askedShape = z.strictObject({ tool: z.string(), args: z.string().optional() });

export function explainCall(gateway: Gateway, reference: string, body: unknown): AdminAnswer {
  const { tool, args } = readBody(askedShape, body);
  return { status: 200, body: gateway.explainCall(foundSession(gateway, reference), tool, args) };
}
