import { inspectServer } from '../../../gateway/inspect/inspect-server.ts';
import { assertApproved } from '../../../upstreams/pins/approvals.ts';
import { pinsOf } from '../../../upstreams/pins/pinned-tools.ts';
import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { tell } from '../../io/ask.ts';
import { facts, print } from '../../io/output.ts';
import { declaredServers, serverNamed } from './declared-servers.ts';

export const serverCheck: Command = {
  path: ['server', 'check'],
  operands: 'NAME',
  help: 'start it once and say what it offers; exit 1 when it does not start',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = onlyWord(invocation, 'the name of the server');
    const { servers, approvals, config, places } = await declaredServers(invocation);
    const server = serverNamed(servers, name);
    const verdict = approvals.check(server);
    if (verdict.state !== 'approved') tell(verdict.changes.map(({ line }) => `  ${line}`));
    assertApproved(approvals, server);
    const { era, tools, unsound, seconds } = await inspectServer({
      config,
      dataDir: places.dataDir,
      server,
      approvals,
    });
    const changes = approvals
      .toolsChanged(server, pinsOf(tools))
      .flatMap((tool) => tool.changes.map(({ line }) => line));
    const approval = server.source === 'operator' ? 'not needed' : 'approved';
    const found = { name, transport: server.kind, era, tools: tools.length, seconds, approval, changes };
    print(invocation, found, () =>
      facts([
        ['name', name],
        ['transport', server.kind],
        ['era', era],
        ['tools', String(tools.length)],
        ['answered in', `${seconds.toFixed(2)} s`],
        ['approval', approval],
        ...changes.map((line) => ['changed', line] as const),
      ]),
    );
    if (changes.length > 0) {
      tell(['Tools that changed are withheld until they are approved:', `  ambit server approve ${name}`]);
    }
    if (unsound > 0) {
      tell([`Entries of its list that are withheld, since readers take them differently: ${unsound}.`]);
      tell(['  A tool needs one name, members spelled as in MCP, and no key twice.']);
    }
    return 0;
  },
};
