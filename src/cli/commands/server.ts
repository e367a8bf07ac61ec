import { dirname } from 'node:path';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { createFetchedPackage } from '../../gateway/inspect/fetch-package.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, type Invocation, jsonFlag } from '../command.ts';
import { type ConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { announceConfiguration, findGateway } from '../io/find-gateway.ts';
import { printData, renderTable } from '../io/output.ts';
import { serverOrigin } from '../io/show-server.ts';

export interface ServerSetup {
  readonly paths: ConfigPaths;
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly approvals: Approvals;
}

export const serverList: Command = {
  help: 'List servers and whether they may start',
  flags: { json: jsonFlag },
  async run(invocation) {
    const { servers, approvals, paths } = await loadTargetServers(invocation);
    const rows = [...servers.values()].map((server) => {
      const verdict = approvals.check(server);
      return {
        name: server.name,
        source: server.source,
        file: server.file ?? null,
        origin: serverOrigin(server, paths),
        transport: server.kind,
        trust: server.trust,
        era: server.era,
        approval: server.source === 'operator' ? 'not needed' : verdict.state,
        changes: verdict.state === 'approved' ? [] : verdict.changes.map(({ line }) => line),
        definitionHash: server.definitionHash,
      };
    });
    printData(invocation, { servers: rows.map(({ origin: _, ...row }) => row) }, () =>
      rows.length === 0
        ? 'No servers. Add them to the configuration, or import them with "ambit import".'
        : renderTable(
            ['NAME', 'FROM', 'VIA', 'TRUST', 'ERA', 'APPROVAL'],
            rows.map((row) => [
              row.name,
              row.origin,
              row.transport,
              row.trust.length === 2 ? 'both' : (row.trust[0] ?? 'none'),
              row.era,
              row.approval === 'not needed' ? '-' : row.approval,
            ]),
            { truncateStart: ['FROM'], states: ['APPROVAL'] },
          ),
    );
  },
};

/** Loads the servers of the configuration that a command is meant for. Needs no gateway. */
export async function loadTargetServers(invocation: Invocation): Promise<ServerSetup> {
  const target = await findGateway(invocation);
  const setup = await loadServers(invocation, target);
  announceConfiguration(invocation, target);
  return setup;
}

/** Loads the servers of a configuration and its included files, with their approvals. */
export async function loadServers(invocation: Invocation, paths: ConfigPaths): Promise<ServerSetup> {
  const config = await loadConfiguration(paths);
  // Approvals that an agent could write would be worthless.
  assertOutOfReach({ ...paths, config });
  const servers = defineServers(config, dirname(paths.configFile));
  const { dataDir } = paths;
  const searchPath = invocation.env['PATH'];
  const approvals = createApprovals({ dataDir, searchPath, fetchedPackage: createFetchedPackage(dataDir) });
  return { paths, config, servers, approvals };
}

export function requireServer(servers: ReadonlyMap<string, ServerDefinition>, name: string): ServerDefinition {
  const server = servers.get(name);
  if (server !== undefined) return server;
  throw new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The configuration has no enabled server "${name}"${suggestClosest(name, [...servers.keys()])}`,
    hint: 'List them with "ambit server list".',
  });
}
