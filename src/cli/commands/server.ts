import { dirname } from 'node:path';
import { assertOutOfReach } from '../../config/load/protect.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { fetchedInto } from '../../gateway/inspect/fetch-package.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, type Invocation, jsonFlag } from '../command.ts';
import { configOf, type Places, placesOf } from '../io/config-paths.ts';
import { print, table } from '../io/output.ts';
import { originOf } from '../io/show-server.ts';

export interface Declared {
  readonly places: Places;
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly approvals: Approvals;
}

export const serverList: Command = {
  path: ['server', 'list'],
  help: 'the servers there are, and whether they may start',
  flags: { json: jsonFlag },
  async run(invocation) {
    const { servers, approvals, places } = await declaredServers(invocation);
    const rows = [...servers.values()].map((server) => {
      const verdict = approvals.check(server);
      return {
        name: server.name,
        source: server.source,
        file: server.file ?? null,
        origin: originOf(server, places),
        transport: server.kind,
        trust: server.trust,
        era: server.era,
        approval: server.source === 'operator' ? 'not needed' : verdict.state,
        changes: verdict.state === 'approved' ? [] : verdict.changes.map(({ line }) => line),
        definitionHash: server.definitionHash,
      };
    });
    print(invocation, { servers: rows.map(({ origin: _, ...row }) => row) }, () =>
      rows.length === 0
        ? 'No servers. Write them into the configuration, or take over those of others with "ambit import".'
        : table(
            ['NAME', 'FROM', 'VIA', 'TRUST', 'ERA', 'APPROVAL'],
            rows.map((row) => [
              row.name,
              row.origin,
              row.transport,
              row.trust.length === 2 ? 'both' : (row.trust[0] ?? 'none'),
              row.era,
              row.approval === 'not needed' ? '-' : row.approval,
            ]),
            { byEnd: ['FROM'] },
          ),
    );
    return 0;
  },
};

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
