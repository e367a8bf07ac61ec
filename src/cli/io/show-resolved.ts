import type { AnswerOf } from '../../entrances/control/routes.ts';
import { columns, cut, table, wrap } from './output.ts';

const widestName = 30;
const widestVariable = 34;

/** Which servers a session may use and why not the others, then where each variable comes from. No values. */
export function showResolved(servers: AnswerOf<'GET /api/v1/sessions/{id}/servers'>['servers']): string {
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
