import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { type Command, jsonFlag } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';

export const userList: Command = {
  path: ['user', 'list'],
  help: 'the users there are',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/users');
    print(invocation, listed, () =>
      listed.users.length === 0 ? 'No users. Add one with "ambit user add NAME".' : shown(listed),
    );
    return 0;
  },
};

function shown({ users }: AnswerOf<'GET /api/v1/users'>): string {
  const rows = users.map(({ name, teams, declared, createdAt }) => [
    name,
    teams.length === 0 ? '-' : teams.join(', '),
    declared ? 'in the configuration' : `added ${createdAt?.slice(0, 10)}`,
  ]);
  return table(['NAME', 'TEAMS', 'NOTE'], rows, { precious: ['NAME', 'NOTE'] });
}
