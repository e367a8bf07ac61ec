import { AmbitError } from '../../errors.ts';
import type { Operator } from '../../gateway/gateway.ts';
import { gatewayServersOf, mcpServersOf, serverViewOf } from '../../gateway/inspect/mcp-servers.ts';
import type { via } from './requests.ts';
import type { Asked } from './route.ts';
import { heldSession } from './sessions.ts';

export async function resolveSession(gateway: Operator, { parameter }: Asked) {
  const session = await heldSession(gateway, parameter);
  // Whoever is handed the servers starts them there.
  await gateway.folders.folderFor(session);
  const { explain, narrowsTools } = await gateway.openAccess();
  const resolved = explain(session);
  return {
    mcpServers: mcpServersOf(session, resolved, gateway.places, narrowsTools),
    servers: resolved.map((each) => serverViewOf(each, narrowsTools)),
  };
}

/** Gateway addresses with a further token of the session: each time another, so this is no GET. */
export async function resolveViaGateway(gateway: Operator, { parameter, address }: Asked<{ body: typeof via }>) {
  const { id } = await heldSession(gateway, parameter);
  if (address === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', { what: 'This gateway does not listen on any address.' });
  }
  const token = await gateway.furtherToken(id);
  const session = await heldSession(gateway, id);
  const { explain, hasOwnTools } = await gateway.openAccess();
  const resolved = explain(session);
  return {
    mcpServers: gatewayServersOf(resolved, address, token, hasOwnTools(session)),
    servers: resolved.map((each) => serverViewOf(each)),
  };
}
