import type { TeamView } from '../gateway/people.ts';
import { type Command, jsonFlag } from './command.ts';
import { askGateway } from './control-client.ts';
import { columns, cut, print, table } from './output.ts';

export const teamList: Command = {
  path: ['team', 'list'],
  help: 'the teams there are, and who is in them',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await askGateway<{ teams: readonly TeamView[] }>(invocation, 'GET', '/api/v1/teams');
    print(invocation, listed, () => (listed.teams.length === 0 ? 'No teams.' : shown(listed.teams)));
    return 0;
  },
};

function shown(teams: readonly TeamView[]): string {
  const rows = teams.map(({ name, declared, members }) => [
    name,
    cut(members.length === 0 ? '-' : members.join(', '), columns / 2),
    declared ? 'in the configuration' : '',
  ]);
  return table(['TEAM', 'MEMBERS', ''], rows);
}
