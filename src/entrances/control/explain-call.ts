import type { Operator } from '../../gateway/gateway.ts';
import type { callToExplain } from './requests.ts';
import type { Asked } from './route.ts';
import { heldSession } from './sessions.ts';

export async function explainCall(gateway: Operator, { parameter, body }: Asked<{ body: typeof callToExplain }>) {
  const session = await heldSession(gateway, parameter);
  return (await gateway.openAccess()).explainCall(session, body.tool, body.args);
}
