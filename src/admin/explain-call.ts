import type { Gateway } from '../gateway/gateway.ts';
import type { Asked } from './route.ts';
import type { callToExplain } from './schemas/sessions.ts';
import { heldSession } from './sessions.ts';

export async function explainCall(gateway: Gateway, { parameter, body }: Asked<{ body: typeof callToExplain }>) {
  return gateway.explainCall(await heldSession(gateway, parameter), body.tool, body.args);
}
