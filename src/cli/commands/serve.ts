import { once } from 'node:events';
import { listenProblems } from '../../config/schema/listen-rules.ts';
import { listenControlOf } from '../../entrances/control/listen-control.ts';
import { listenHttp } from '../../entrances/http/listen-http.ts';
import { AmbitError } from '../../errors.ts';
import { openGateway } from '../../gateway/assembly/open-gateway.ts';
import { type Command, text, UsageFault } from '../command.ts';
import { logFlags, logOf } from '../io/log-flags.ts';
import { configOf, placesOf } from '../io/places.ts';
import { watchConfig } from '../io/watch-config.ts';
import { askForApprovals } from './server/ask-for-approvals.ts';

// Of the five seconds, a server that ignores everything but KILL takes two, and sweeping up needs some as well.
const drainMs = 1500;

export const serveCommand: Command = {
  path: ['serve'],
  help: 'the gateway over HTTP',
  flags: {
    host: { type: 'string', value: 'HOST', help: 'default 127.0.0.1' },
    port: { type: 'string', value: 'PORT', help: 'default 7420; 0 takes any' },
    json: { type: 'boolean', help: 'one JSON line when ready' },
    ...logFlags,
  },
  async run(invocation) {
    const log = logOf(invocation);
    const askedPort = portOf(invocation.flags.port);
    const places = placesOf(invocation);
    const config = await configOf(places, log);
    const host = text(invocation, 'host') ?? config.listen.host;
    const [problem] = listenProblems({ ...config.auth, host, behindProxy: config.listen.behindProxy });
    if (problem !== undefined) throw new AmbitError('CONFIG_INVALID', { what: `--host ${host}: ${problem.message}.` });
    await askForApprovals(invocation, log);
    // From here on there is something to clear up: a signal must not find us without a handler.
    const told = Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
    const gateway = await openGateway({ config, ...places, log, environment: invocation.env });
    try {
      let url = config.listen.publicUrl;
      const control = await listenControlOf(gateway, places.dataDir, invocation.env, () => url);
      const address = { host, port: askedPort ?? config.listen.port };
      const http = await listenHttp(gateway, address, log).catch(async (error: NodeJS.ErrnoException) => {
        await control.close();
        throw new AmbitError('CONFIG_INVALID', {
          what: `The gateway cannot listen: ${error.message}.`,
          hint: 'Choose another port with --port.',
        });
      });
      url ??= http.url;
      gateway.prepare();
      const ready = { url: http.url, mcpUrl: `${http.url}/mcp`, adminUrl: `${http.url}/` };
      if (invocation.flags.json === true) process.stdout.write(`${JSON.stringify(ready)}\n`);
      log.info('listening', { url: http.url });
      log.info('control API', { url: `${http.url}/api/v1`, tokenFile: http.adminTokenFile });
      for (const server of gateway.servers().keys()) log.info('serving', { server, url: `${http.url}/mcp/${server}` });
      const watching = watchConfig(places.configFile, gateway, log);
      await told;
      watching.close();
      log.info('ending');
      await control.close();
      await http.close(drainMs);
      return 0;
    } finally {
      await gateway.close();
    }
  },
};

function portOf(flag: unknown): number | undefined {
  if (typeof flag !== 'string') return undefined;
  const port = Number(flag);
  if (!/^[0-9]{1,5}$/.test(flag) || port > 65535) throw new UsageFault('--port takes a number from 0 to 65535');
  return port;
}
