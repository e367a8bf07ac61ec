import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import { gatewayServersOf, mcpServersOf, type SessionServers, serverViewOf } from '../gateway/mcp-servers.ts';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { heldSession, readBody } from './sessions.ts';

export const viaShape = z.strictObject({ via: z.literal('gateway') });

export async function resolveSession(gateway: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const session = await heldSession(gateway, parameter);
  // Whoever is handed the servers starts them there.
  await gateway.folders.folderFor(session);
  const { explain, narrowsTools } = await gateway.openAccess();
  const resolved = explain(session);
  return answer(200, {
    mcpServers: mcpServersOf(session, resolved, gateway.places, narrowsTools),
    servers: resolved.map((each) => serverViewOf(each, narrowsTools)),
  });
}

/** Gateway addresses with a further token of the session: each time another, so this is no GET. */
export async function resolveViaGateway(gateway: Operator, { parameter, body, address }: Asked): Promise<AdminAnswer> {
  readBody(viaShape, body);
  const { id } = await heldSession(gateway, parameter);
  if (address === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', { what: 'This gateway does not listen on any address.' });
  }
  const token = await gateway.furtherToken(id);
  const session = await heldSession(gateway, id);
  const { explain, hasOwnTools } = await gateway.openAccess();
  const resolved = explain(session);
  return answer(201, {
    mcpServers: gatewayServersOf(resolved, address, token, hasOwnTools(session)),
    servers: resolved.map((each) => serverViewOf(each)),
  });
}

function answer(status: number, body: SessionServers): AdminAnswer {
  return { status, body };
}
