import { existsSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { resolveArgs, resolveCommand } from '../../config/load/configured-paths.ts';
import { loadConfig } from '../../config/load/load.ts';
import type { Config } from '../../config/schema/schema.ts';
import { serverName } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { isForOneUser } from '../../upstreams/auth/credential-target.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { findCommandProblem } from '../../upstreams/links/stdio/start-error.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { type Command, type Invocation, readFlag, readListFlag, UsageError } from '../command.ts';
import { type ConfigPaths, findConfigPaths, loadConfiguration } from '../io/config-paths.ts';
import { createLog } from '../io/log-flags.ts';
import { serveSession, sessionFlags } from './stdio.ts';

export const runCommand: Command = {
  operands: '-- CMD ARGS…',
  help: 'Run one stdio server in a session; needs no configuration',
  flags: {
    ...sessionFlags,
    name: { type: 'string', value: 'NAME', help: 'Name of the server; default: from its command' },
    env: { type: 'string', value: 'NAME', help: 'Pass this environment variable to the server', multiple: true },
  },
  async run(invocation) {
    const [command, ...args] = invocation.passthrough;
    if (command === undefined)
      throw new UsageError('the command to run is missing', 'Write it after "--": ambit run -- CMD ARGS…');
    const name = readServerName(invocation) ?? deriveServerName(command, args);
    const paths = findConfigPaths(invocation);
    const base = existsSync(paths.configFile) ? await loadConfiguration(paths, createLog(invocation)) : undefined;
    const env = readPassedVariables(readListFlag(invocation, 'env') ?? [], invocation.env);
    const known = base === undefined ? undefined : defineServers(base, dirname(paths.configFile)).get(name);
    const isKnown = known?.kind === 'stdio' && known.command === command && isDeepStrictEqual(known.args, args);
    // A configured command is complete: its "." means the working directory of the server.
    const server = isKnown ? { command, args } : resolveFromHere({ command, args });
    const config = await wrapCommand(base, name, { ...server, env });
    const credentials = isConfiguredServer(known, config, name, paths);
    const problem = findCommandProblem(server.command, invocation.env['PATH']);
    return serveSession(invocation, paths, config, {
      name,
      credentials,
      problem: problem === undefined ? undefined : new AmbitError('UPSTREAM_FAILED', problem),
    });
  },
};

/** Resolves a command against the folder from which it was called. */
function resolveFromHere({ command, args }: { readonly command: string; readonly args: readonly string[] }) {
  const here = process.cwd();
  return { command: resolveCommand(command, here), args: resolveArgs({ command, args }, here, { withDots: true }) };
}

/** Makes a configuration of one server, based on the configuration file if there is one. */
async function wrapCommand(
  base: Config | undefined,
  name: string,
  wrapped: { readonly command: string; readonly args: readonly string[]; readonly env: Record<string, string> },
): Promise<Config> {
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
  known: ServerDefinition | undefined,
  wrapped: Config,
  name: string,
  { configFile, dataDir }: ConfigPaths,
): boolean {
  const here = defineServers(wrapped, dirname(configFile)).get(name);
  if (known?.kind !== 'stdio' || here?.kind !== 'stdio' || !isForOneUser(known)) return false;
  if (known.command !== here.command || !isDeepStrictEqual(known.args, here.args)) return false;
  const approvals = createApprovals({ dataDir });
  try {
    return approvals.check(known).state === 'approved';
  } finally {
    approvals.close();
  }
}

function readServerName(invocation: Invocation): string | undefined {
  const name = readFlag(invocation, 'name');
  if (name === undefined || (serverName.test(name) && name !== 'ambit')) return name;
  throw new UsageError(
    '--name takes 1 to 40 characters of a-z, 0-9 and "-", with no "-" at either end, and not "ambit"',
  );
}

/** Programs that fetch and start a package, with the words before its name. */
const packageRunners = /^(?:npx|bunx|pnpx|uvx|(?:npm|pnpm|yarn|bun) (?:exec|x|dlx)|uv tool run|uv run|pipx run)(?= |$)/;
const interpreters =
  /^(?:node|nodejs|tsx|ts-node|bun(?: run)?|deno(?: run)?|python[\d.]*|ruby|php|perl|sh|bash)(?= |$)/;
/** Flags of these programs that take the next word. */
const flagsWithValue =
  /^(?:-p|--package|--from|--python|--with|--index|--index-url|--directory|--project|--env-file|-r|--require|--import|--loader|-W|-X|-C|--prefix|--config)$/;
/** Flags with the code itself: nothing is named. */
const inlineCode = /^(?:-e|-c|--eval|-p|--print)$/;
/** Names of files and folders that say nothing about a server. */
const commonNames = /^(?:index|main|__main__|cli|app|run|start|dist|build|src|lib|bin|out)$/;
const maxNameLength = 40;

/**
 * Derives the name of a server from its command: the name of the package or script where a runner or an interpreter is
 * started, else the name of the program.
 */
export function deriveServerName(command: string, args: readonly string[]): string {
  const program = basename(command);
  const words = [program, ...args];
  const isRunner = packageRunners.exec(words.join(' '));
  const [start] = isRunner ?? interpreters.exec(words.join(' ')) ?? [];
  const target = start === undefined ? undefined : findTarget(words.slice(start.split(' ').length), isRunner !== null);
  if (target === undefined) return toServerName(program);
  return toServerName(isRunner === null ? nameScript(target) : namePackage(target));
}

/** Finds the first word that is no flag; for `python -m` the module. */
function findTarget(words: readonly string[], isRunner: boolean): string | undefined {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    if (!isRunner && inlineCode.test(word)) return undefined;
    if (word === '-m') return words[at + 1]?.replaceAll('.', '-');
    if (!word.startsWith('-')) return word;
    if (flagsWithValue.test(word)) at++;
  }
  return undefined;
}

/** The name of a package without its scope, version, extras or address. */
function namePackage(spec: string): string {
  const isFile = /\.[cm]?[jt]sx?$|\.py$/.test(spec);
  if (isFile) return nameScript(spec);
  const name = spec.replace(/(?<=[^/])(?:@|==|\[).*$/s, '');
  return basename(name.replace(/\.git$/, ''));
}

/** The name of a script, or of the folder above where the script is called `index` or the like. */
function nameScript(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  const names = parts.map((part, at) => (at === parts.length - 1 ? part.replace(/\.[a-z]+$/i, '') : part));
  return names.findLast((part) => !commonNames.test(part)) ?? names.at(-1) ?? '';
}

function toServerName(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/\.[a-z]+$/, '')
    .replace(/[^a-z0-9-]+/g, '-')
    .slice(0, maxNameLength)
    .replace(/^-+|(?<!-)-+$/g, '');
  return name === '' || name === 'ambit' ? 'server' : name;
}

function readPassedVariables(names: readonly string[], env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = env[name];
    if (value === undefined) throw new UsageError(`--env ${name}: this environment variable is not set`);
    found[name] = value;
  }
  return found;
}
