import type { Gateway } from '../gateway/gateway.ts';
import type { callToExplain } from './requests.ts';
import type { Asked } from './route.ts';
import { heldSession } from './sessions.ts';

export async function explainCall(gateway: Gateway, { parameter, body }: Asked<{ body: typeof callToExplain }>) {
  return gateway.explainCall(await heldSession(gateway, parameter), body.tool, body.args);
}
