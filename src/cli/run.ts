import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { loadConfig } from '../config/load.ts';
import { resolveArgs, resolveCommand } from '../config/resolve-args.ts';
import type { Config } from '../config/schema.ts';
import { serveStdio } from '../entrances/stdio/serve-stdio.ts';
import { openGateway } from '../gateway/gateway.ts';
import { stderrLog } from '../log.ts';
import { normalizeTrust } from '../trust/trust-level.ts';
import { type Command, text, UsageFault } from './command.ts';
import { configOf, placesOf } from './places.ts';

export const runCommand: Command = {
  path: ['run'],
  operands: '-- CMD ARGS…',
  help: 'one stdio server, wrapped; needs no configuration',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'where it works' },
    trust: { type: 'string', value: 'T', help: 'direct or sandboxed' },
    name: { type: 'string', value: 'N', help: 'what to call the server' },
    env: { type: 'string', value: 'NAME', help: 'pass this variable on; repeatable', multiple: true },
  },
  async run(invocation) {
    const [command, ...args] = invocation.rest;
    if (command === undefined) throw new UsageFault('the command to wrap is missing: ambit run -- CMD ARGS…');
    const trust = text(invocation, 'trust');
    const trustLevel = trust === undefined ? undefined : normalizeTrust(trust);
    if (trust !== undefined && trustLevel === undefined) throw new UsageFault('--trust is "direct" or "sandboxed"');
    const name = text(invocation, 'name') ?? nameOf(command);
    const places = placesOf(invocation);
    const base = existsSync(places.configFile) ? await configOf(places) : undefined;
    const env = passedOn(invocation.flags.env, invocation.env);
    // From here on there is something to clear up: a signal must not find us without a handler.
    const told = Promise.race([signalled('SIGTERM'), signalled('SIGINT'), signalled('SIGHUP')]);
    const gateway = await openGateway({
      ...places,
      config: await wrap(base, name, { command, args, env }),
      log: stderrLog(),
    });
    const workspaceId = text(invocation, 'workspace');
    try {
      const { session } = gateway.openSession({
        ...(workspaceId === undefined ? {} : { workspaceId }),
        ...(trustLevel === undefined ? {} : { trustLevel }),
      });
      const served = serveStdio({
        gateway,
        server: name,
        sessionId: session.id,
        input: process.stdin,
        output: process.stdout,
      });
      await Promise.race([served, told]);
      return 0;
    } finally {
      await gateway.close();
      process.stdin.destroy();
    }
  },
};

/** A configuration of one server, and of nothing else unless there is a file; its files are found from here. */
async function wrap(
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
  return base === undefined ? config : { ...base, servers: config.servers };
}

function nameOf(command: string): string {
  const name = basename(command)
    .toLowerCase()
    .replace(/\.[a-z]+$/, '')
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  return name === '' || name === 'ambit' ? 'server' : name;
}

function passedOn(names: unknown, env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of Array.isArray(names) ? (names as string[]) : []) {
    const value = env[name];
    if (value === undefined) throw new UsageFault(`--env ${name}: there is no such variable`);
    found[name] = value;
  }
  return found;
}

function signalled(signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => process.once(signal, () => resolve()));
}
