import { escapeControls } from '../escape-controls.ts';
import type { ServerView } from '../gateway/mcp-servers.ts';
import { table } from './output.ts';

const columns = 80;
const widestName = 30;
const widestVariable = 34;

/** Which servers a session may use and why not the others, then where each variable comes from. No values. */
export function showResolved(servers: readonly ServerView[]): string {
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

function cut(text: string, most: number): string {
  const plain = escapeControls(text);
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [''];
  for (const word of escapeControls(text).split(' ')) {
    const last = lines.length - 1;
    const longer = lines[last] === '' ? word : `${lines[last]} ${word}`;
    if (longer.length <= width) lines[last] = longer;
    else lines.push(...(word.match(new RegExp(`.{1,${width}}`, 'gu')) ?? []));
  }
  return lines.filter((line) => line !== '');
}
