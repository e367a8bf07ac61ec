import { dirname } from 'node:path';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { createFetchedPackage } from '../../gateway/inspect/inspect-server.ts';
import { describeServers, type ServerOverview } from '../../gateway/server-activity.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, type Invocation, jsonFlag } from '../command.ts';
import { isTerminal, printLines } from '../io/ask.ts';
import { type ConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { announceConfiguration, findGateway } from '../io/find-gateway.ts';
import { describeLastError, printData, renderTable } from '../io/output.ts';

export interface ServerSetup {
  readonly paths: ConfigPaths;
  readonly config: Config;
  readonly servers: ReadonlyMap<string, ServerDefinition>;
  readonly approvals: Approvals;
}

export const serverList: Command = {
  help: 'List servers with their state and last error',
  flags: { json: jsonFlag },
  async run(invocation) {
    const servers = await listServers(invocation);
    printData(invocation, { servers }, () =>
      servers.length === 0
        ? 'No servers. Add one with "ambit server add", or import servers with "ambit import".'
        : renderTable(
            ['NAME', 'STATE', 'TRANSPORT', 'ERA', 'APPROVAL', 'PROCESSES', 'LAST ERROR'],
            servers.map(({ name, state, transport, era, approval, processes, lastError }) => [
              name,
              state ?? '-',
              transport,
              era ?? '-',
              approval === 'not needed' ? '-' : approval,
              processes === null ? '-' : String(processes),
              describeLastError(name, lastError),
            ]),
            { keepWidth: ['STATE', 'TRANSPORT', 'ERA', 'APPROVAL', 'PROCESSES'], states: ['STATE', 'APPROVAL'] },
          ),
    );
    if (isTerminal() && servers.length > 0 && servers.every(({ state }) => state === null)) {
      printLines(['States are known only while a gateway runs. Start one with "ambit serve".']);
    }
  },
};

/** Asks the running gateway for its servers; without one, reads the configuration. */
async function listServers(invocation: Invocation): Promise<readonly ServerOverview[]> {
  try {
    return (await runningGatewayRequest(invocation, 'GET /api/v1/servers')).servers;
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  const { servers, approvals } = await loadTargetServers(invocation);
  return describeServers(servers.values(), approvals);
}

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
    what: `The configuration has no enabled server "${name}"${suggestClosest(name, [...servers.keys()]) || '.'}`,
    hint: 'List them with "ambit server list".',
  });
}
