import type { SessionServers } from '../gateway/mcp-servers.ts';
import { type Command, jsonFlag, text, UsageFault } from './command.ts';
import { askGateway } from './control-client.ts';
import { showResolved } from './show-resolved.ts';

export const resolveCommand: Command = {
  path: ['resolve'],
  help: 'the servers of a session, ready for an agent SDK',
  flags: {
    session: { type: 'string', value: 'ID', help: 'which session' },
    via: { type: 'string', value: 'gateway', help: 'addresses of the gateway, with a further token' },
    explain: { type: 'boolean', help: 'which server is in or out, and why' },
    json: jsonFlag,
  },
  async run(invocation) {
    const reference = text(invocation, 'session');
    const via = text(invocation, 'via');
    const explain = invocation.flags['explain'] === true;
    const json = invocation.flags['json'] === true;
    if (reference === undefined) throw new UsageFault('--session ID is missing');
    if (via !== undefined && via !== 'gateway') throw new UsageFault('--via takes "gateway"');
    const path = `/api/v1/sessions/${encodeURIComponent(reference)}/servers`;
    // Words need no token: none is made where none is shown.
    const body = via === undefined || (explain && !json) ? undefined : { via };
    const answer = await askGateway<SessionServers>(invocation, body === undefined ? 'GET' : 'POST', path, body);
    process.stdout.write(`${shown(answer, explain, json)}\n`);
    return 0;
  },
};

function shown({ mcpServers, servers }: SessionServers, explain: boolean, json: boolean): string {
  if (explain && !json) return showResolved(servers);
  return JSON.stringify(explain ? { mcpServers, servers } : { mcpServers }, undefined, json ? 0 : 2);
}
