import { type Command, jsonFlag } from './command.ts';
import { declaredServers } from './declared-servers.ts';
import { print, table } from './output.ts';
import { originOf } from './show-server.ts';

const widest = { name: 22, origin: 15 };

export const serverList: Command = {
  path: ['server', 'list'],
  help: 'the servers there are, and whether they may start',
  flags: { json: jsonFlag },
  async run(invocation) {
    const { servers, approvals, places } = await declaredServers(invocation);
    const rows = [...servers.values()].map((server) => {
      const verdict = approvals.check(server);
      return {
        name: server.name,
        source: server.source,
        file: server.file ?? null,
        origin: originOf(server, places),
        transport: server.kind,
        trust: server.trust,
        era: server.era,
        approval: server.source === 'operator' ? 'not needed' : verdict.state,
        changes: verdict.state === 'approved' ? [] : verdict.changes.map(({ line }) => line),
        definitionHash: server.definitionHash,
      };
    });
    print(invocation, { servers: rows.map(({ origin: _, ...row }) => row) }, () =>
      rows.length === 0
        ? 'No servers.'
        : table(
            ['NAME', 'FROM', 'VIA', 'TRUST', 'ERA', 'APPROVAL'],
            rows.map((row) => [
              cut(row.name, widest.name),
              cutStart(row.origin, widest.origin),
              row.transport,
              row.trust.length === 2 ? 'both' : (row.trust[0] ?? 'none'),
              row.era,
              row.approval === 'not needed' ? '-' : row.approval,
            ]),
          ),
    );
    return 0;
  },
};

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const cutStart = (text: string, most: number): string =>
  text.length > most ? `…${text.slice(text.length - most + 1)}` : text;
