import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, text, UsageFault } from '../command.ts';
import { controlRequest } from '../io/control-client.ts';
import { showResolved } from '../io/show-resolved.ts';

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
    // Words need no token: none is made where none is shown.
    const needsToken = via !== undefined && (!explain || json);
    const answer = needsToken
      ? await controlRequest(invocation, 'POST /api/v1/sessions/{id}/servers', { id: reference, body: { via } })
      : await controlRequest(invocation, 'GET /api/v1/sessions/{id}/servers', { id: reference });
    process.stdout.write(`${shown(answer, explain, json)}\n`);
    return 0;
  },
};

type Servers = AnswerOf<'GET /api/v1/sessions/{id}/servers'>;

function shown({ mcpServers, servers }: Servers, explain: boolean, json: boolean): string {
  if (explain && !json) return showResolved(servers);
  return JSON.stringify(explain ? { mcpServers, servers } : { mcpServers }, undefined, json ? 0 : 2);
}
