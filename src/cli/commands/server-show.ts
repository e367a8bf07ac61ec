import type { AnswerOf } from '../../entrances/control/routes.ts';
import { toPlainLine } from '../../lib/text/escape-controls.ts';
import { type Command, jsonFlag, requirePositional } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { describeLastError, printData, renderPairs, renderTable } from '../io/output.ts';

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
  return `${pairs}\n\n${renderTable(['TOOL', 'STATE', 'DESCRIPTION'], rows, { keepWidth: ['TOOL', 'STATE'], states: ['STATE'] })}`;
}

function describeDefinition({ definition }: ShownServer): (readonly [string, string])[] {
  if (definition.kind === 'http') {
    const { url, headers } = definition;
    return [['calls', url], ...(headers.length === 0 ? [] : [['headers', headers.join(', ')] as const])];
  }
  const { command, args, program, problem, files, package: fetched, env } = definition;
  return [
    ['runs', [command, ...args].join(' ')],
    ['program', program ?? problem ?? '-'],
    ...files.map(({ path }) => ['file', path] as const),
    ...(fetched === null ? [] : [['package', `${fetched.name} ${fetched.version}`] as const]),
    ...(env.length === 0 ? [] : [['env', env.join(', ')] as const]),
  ];
}
