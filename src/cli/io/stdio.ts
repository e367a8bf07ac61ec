import { allServers } from '../../gateway/exchange.ts';
import type { Command } from '../command.ts';
import { logOf } from './log-flags.ts';
import { serveOnPipes, sessionFlags } from './on-pipes.ts';
import { configOf, placesOf } from './places.ts';

export const stdioCommand: Command = {
  path: ['stdio'],
  help: 'all servers as one, on stdin and stdout, in one session',
  flags: sessionFlags,
  async run(invocation) {
    const places = placesOf(invocation);
    return serveOnPipes(invocation, places, await configOf(places, logOf(invocation)), allServers);
  },
};
