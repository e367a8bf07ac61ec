import { dirname } from 'node:path';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { AmbitError } from '../../errors.ts';
import { createFetchedPackage } from '../../gateway/inspect/inspect-server.ts';
import { describeServers, type ServerOverview } from '../../gateway/server-activity.ts';
import { toPlainLine } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { type Approvals, createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, type Invocation, jsonFlag, requirePositional } from '../command.ts';
import { isTerminal, printLines } from '../io/ask.ts';
import { type ConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { controlRequest, isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { announceConfiguration, findGateway } from '../io/find-gateway.ts';
import { describeLastError, printData, renderChangedTools, renderPairs, renderTable } from '../io/output.ts';

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

type ShownServer = AnswerOf<'GET /api/v1/servers/{id}'>;

export const serverShow: Command = {
  operands: 'NAME',
  help: 'Show what a server runs, its approval, tools and logins',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'NAME');
    const server = await controlRequest(invocation, 'GET /api/v1/servers/{id}', { id });
    printData(invocation, server, () => renderServer(server));
  },
};

function renderServer(server: ShownServer): string {
  const { name, state, transport, era, trust, approval, approvedAt, changes, tools, logins, lastError } = server;
  const pairs = renderPairs([
    ['name', name],
    ['state', state ?? '-'],
    ['transport', transport],
    ['era', era ?? '-'],
    ['trust', trust.join(', ')],
    ...describeDefinition(server),
    ['approval', approvedAt === null ? approval : `${approval} (${approvedAt})`],
    ...changes.map((line) => ['changed', line] as const),
    ...logins.map(({ userId, state: login }) => ['login', `${userId} (${login})`] as const),
    ...(lastError === null ? [] : [['last error', describeLastError(name, lastError)] as const]),
  ]);
  if (tools.length === 0) return pairs;
  const rows = tools.map((tool) => [toPlainLine(tool.name), tool.state, toPlainLine(tool.description ?? '-')]);
  return `${pairs}\n\n${renderTable(['TOOL', 'STATE', 'DESCRIPTION'], rows, { keepWidth: ['TOOL', 'STATE'], states: ['STATE'] })}${renderChangedTools(tools)}`;
}

function describeDefinition({ definition }: ShownServer): (readonly [string, string])[] {
  if (definition.kind === 'http') {
    const { url, headers } = definition;
    return [['calls', url], ...(headers.length === 0 ? [] : [['headers', headers.join(', ')] as const])];
  }
  const { command, args, argCount, program, problem, files, fileCount, package: fetched, env } = definition;
  return [
    ['runs', [command, ...(args ?? [`(${formatCount(argCount, 'argument')})`])].join(' ')],
    ['program', program ?? problem ?? '-'],
    ...(files ?? []).map(({ path }) => ['file', path] as const),
    ...(files === null && fileCount > 0 ? [['files', formatCount(fileCount, 'pinned file')] as const] : []),
    ...(fetched === null ? [] : [['package', `${fetched.name} ${fetched.version}`] as const]),
    ...(env.length === 0 ? [] : [['env', env.join(', ')] as const]),
  ];
}

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
