import { existsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { resolveArgs, resolveCommand } from '../../config/load/configured-paths.ts';
import { loadConfig } from '../../config/load/load.ts';
import type { Config } from '../../config/schema/schema.ts';
import { isForOneUser } from '../../upstreams/auth/credential-target.ts';
import { defineServers } from '../../upstreams/definition.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, readFlag, readListFlag, UsageError } from '../command.ts';
import { type ConfigPaths, findConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { createLog } from '../io/log-flags.ts';
import { serveSession, sessionFlags } from './stdio.ts';

export const runCommand: Command = {
  operands: '-- CMD ARGS…',
  help: 'one stdio server, wrapped; needs no configuration',
  flags: {
    ...sessionFlags,
    name: { type: 'string', value: 'N', help: 'what to call the server' },
    env: { type: 'string', value: 'NAME', help: 'pass this variable on; repeatable', multiple: true },
  },
  async run(invocation) {
    const [command, ...args] = invocation.passthrough;
    if (command === undefined) throw new UsageError('the command to wrap is missing: ambit run -- CMD ARGS…');
    const name = readFlag(invocation, 'name') ?? serverNameFor(command);
    const paths = findConfigPaths(invocation);
    const base = existsSync(paths.configFile) ? await loadConfiguration(paths, createLog(invocation)) : undefined;
    const env = readPassedVariables(readListFlag(invocation, 'env') ?? [], invocation.env);
    const config = await wrapCommand(base, name, { command, args, env });
    return serveSession(invocation, paths, config, name, isConfiguredServer(base, config, name, paths));
  },
};

/**
 * A configuration of one server, based on the configuration file if there is one. Paths are relative to the current
 * folder.
 */
async function wrapCommand(
  base: Config | undefined,
  name: string,
  server: { readonly command: string; readonly args: readonly string[]; readonly env: Record<string, string> },
): Promise<Config> {
  const here = process.cwd();
  const wrapped = {
    command: resolveCommand(server.command, here),
    args: resolveArgs(server.args, here),
    env: server.env,
  };
  const text = JSON.stringify({ version: 1, servers: { [name]: wrapped } });
  const { config } = await loadConfig({ text, file: 'command line' });
  if (base === undefined) return config;
  // A tool filter of a configured server of this name applies here too.
  const [described, known] = [config.servers[name], Object.hasOwn(base.servers, name) ? base.servers[name] : undefined];
  if (described === undefined || known === undefined) return { ...base, servers: config.servers };
  return { ...base, servers: { [name]: { ...described, tools: known.tools } } };
}

/**
 * Whether the command is the one that the configuration starts under that name: only then it gets the credentials of
 * users.
 */
function isConfiguredServer(
  base: Config | undefined,
  wrapped: Config,
  name: string,
  { configFile, dataDir }: ConfigPaths,
): boolean {
  if (base === undefined) return false;
  const [known, here] = [base, wrapped].map((each) => defineServers(each, dirname(configFile)).get(name));
  if (known?.kind !== 'stdio' || here?.kind !== 'stdio' || !isForOneUser(known)) return false;
  if (known.command !== here.command || !isDeepStrictEqual(known.args, here.args)) return false;
  const approvals = createApprovals({ dataDir });
  try {
    return approvals.check(known).state === 'approved';
  } finally {
    approvals.close();
  }
}

function serverNameFor(command: string): string {
  const name = basename(command)
    .toLowerCase()
    .replace(/\.[a-z]+$/, '')
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|(?<!-)-+$/g, '');
  return name === '' || name === 'ambit' ? 'server' : name;
}

function readPassedVariables(names: readonly string[], env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = env[name];
    if (value === undefined) throw new UsageError(`--env ${name}: there is no such variable`);
    found[name] = value;
  }
  return found;
}
