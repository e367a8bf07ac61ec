import { type Command, jsonFlag } from '../../command.ts';
import { print, table } from '../../io/output.ts';
import { declaredServers } from './declared-servers.ts';
import { originOf } from './show-server.ts';

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
        ? 'No servers. Write them into the configuration, or take over those of others with "ambit import".'
        : table(
            ['NAME', 'FROM', 'VIA', 'TRUST', 'ERA', 'APPROVAL'],
            rows.map((row) => [
              row.name,
              row.origin,
              row.transport,
              row.trust.length === 2 ? 'both' : (row.trust[0] ?? 'none'),
              row.era,
              row.approval === 'not needed' ? '-' : row.approval,
            ]),
            { byEnd: ['FROM'] },
          ),
    );
    return 0;
  },
};
