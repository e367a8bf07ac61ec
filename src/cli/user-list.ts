import type { UserView } from '../gateway/people.ts';
import { type Command, jsonFlag } from './command.ts';
import { askGateway } from './control-client.ts';
import { print, table } from './output.ts';

interface Listed {
  readonly organisation: string | null;
  readonly users: readonly UserView[];
}

export const userList: Command = {
  path: ['user', 'list'],
  help: 'the users there are',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await askGateway<Listed>(invocation, 'GET', '/api/v1/users');
    print(invocation, listed, () =>
      listed.users.length === 0 ? 'No users. Add one with "ambit user add NAME".' : shown(listed.users),
    );
    return 0;
  },
};

function shown(users: readonly UserView[]): string {
  const rows = users.map(({ name, teams, declared, createdAt }) => [
    name,
    teams.length === 0 ? '-' : teams.join(', '),
    declared ? 'in the configuration' : `added ${createdAt?.slice(0, 10)}`,
  ]);
  return table(['NAME', 'TEAMS', 'NOTE'], rows, { precious: ['NAME', 'NOTE'] });
}
