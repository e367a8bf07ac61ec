import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, text, UsageFault } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { columns, cut, table, wrap } from '../io/output.ts';

const widestName = 30;

const widestVariable = 34;

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
    process.stdout.write(`${renderServers(answer, explain, json)}\n`);
    return 0;
  },
};

type Servers = AnswerOf<'GET /api/v1/sessions/{id}/servers'>;

function renderServers({ mcpServers, servers }: Servers, explain: boolean, json: boolean): string {
  if (explain && !json) return showResolved(servers);
  return JSON.stringify(explain ? { mcpServers, servers } : { mcpServers }, undefined, json ? 0 : 2);
}

/** Which servers a session may use and why not the others, then where each variable comes from. No values. */
function showResolved(servers: AnswerOf<'GET /api/v1/sessions/{id}/servers'>['servers']): string {
  if (servers.length === 0) return 'No servers.';
  const width = Math.max('SERVER'.length, ...servers.map(({ name }) => cut(name, widestName).length));
  const room = columns - width - '  STATE  '.length;
  const states = servers.flatMap((server) => {
    if (server.available) return [[cut(server.name, widestName), 'in', '']];
    const lines = wrap(`${server.reason} (${server.rule})`, room);
    return lines.map((line, i) => (i === 0 ? [cut(server.name, widestName), 'out', line] : ['', '', line]));
  });
  const variables = servers.flatMap((server) =>
    server.available
      ? Object.entries(server.env).map(([name, from]) => [
          cut(server.name, widestName),
          cut(name, widestVariable),
          from,
        ])
      : [],
  );
  const told = variables.length === 0 ? '' : `\n\n${table(['SERVER', 'VARIABLE', 'FROM'], variables)}`;
  return `${table(['SERVER', 'STATE', 'WHY'], states)}${told}`;
}
