import { dirname } from 'node:path';
import { assertOutOfReach } from '../../../config/load/out-of-reach.ts';
import type { Config } from '../../../config/schema/schema.ts';
import { AmbitError } from '../../../errors.ts';
import { fetchedInto } from '../../../gateway/inspect/fetch-package.ts';
import { defineServers, type ServerDefinition } from '../../../upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../../upstreams/pins/approvals.ts';
import type { Invocation } from '../../command.ts';
import { configOf, type Places, placesOf } from '../../io/places.ts';

export interface Declared {
  readonly places: Places;
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly approvals: Approvals;
}

/** The servers of the configuration and its included files, and what is approved of them. Needs no gateway. */
export async function declaredServers(invocation: Invocation): Promise<Declared> {
  const places = placesOf(invocation);
  const config = await configOf(places);
  // Approvals that an agent could write would be worth nothing.
  assertOutOfReach({ ...places, config });
  const servers = defineServers(config, dirname(places.configFile));
  const { dataDir } = places;
  const searchPath = invocation.env['PATH'];
  const approvals = createApprovals({ dataDir, searchPath, fetchedPackage: fetchedInto(dataDir) });
  return { places, config, servers, approvals };
}

export function serverNamed(servers: ReadonlyMap<string, ServerDefinition>, name: string): ServerDefinition {
  const server = servers.get(name);
  if (server !== undefined) return server;
  throw new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The configuration has no server "${name}" that is in use.`,
    hint: 'List them with "ambit server list".',
  });
}
