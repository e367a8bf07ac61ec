import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag, readListFlag, requirePositional } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

export const userAdd: Command = {
  help: 'add a user, or put one into further teams',
  operands: 'NAME',
  flags: { team: { type: 'string', value: 'T', help: 'in this team; repeatable', multiple: true }, json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const view = await controlRequest(invocation, 'POST /api/v1/users', {
      body: { name, teams: readListFlag(invocation, 'team') },
    });
    printData(invocation, view, () =>
      view.teams.length === 0 ? view.name : `${view.name} in ${view.teams.join(', ')}`,
    );
  },
};

export const userList: Command = {
  help: 'the users there are',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/users');
    printData(invocation, listed, () =>
      listed.users.length === 0 ? 'No users. Add one with "ambit user add NAME".' : renderUsers(listed),
    );
  },
};

export const userRemove: Command = {
  help: 'remove a user with all keys, or only from some teams',
  operands: 'NAME',
  flags: {
    team: { type: 'string', value: 'T', help: 'only from this team; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const leftTeams = readListFlag(invocation, 'team');
    if (leftTeams === undefined) {
      const removed = await controlRequest(invocation, 'DELETE /api/v1/users/{id}', { id: name });
      const { keys, sessions } = removed;
      printData(invocation, removed, () => `Removed ${name}: ${keys} keys revoked, ${sessions} sessions ended.`);
      return 0;
    }
    const { teams } = await controlRequest(invocation, 'GET /api/v1/users/{id}', { id: name });
    const view = await controlRequest(invocation, 'PATCH /api/v1/users/{id}', {
      id: name,
      body: { teams: teams.filter((team) => !leftTeams.includes(team)) },
    });
    printData(invocation, view, () => `${name} in ${view.teams.length === 0 ? 'no team' : view.teams.join(', ')}`);
    return 0;
  },
};

function renderUsers({ users }: AnswerOf<'GET /api/v1/users'>): string {
  const rows = users.map(({ name, teams, declared, createdAt }) => [
    name,
    teams.length === 0 ? '-' : teams.join(', '),
    declared ? 'in the configuration' : `added ${createdAt?.slice(0, 10)}`,
  ]);
  return renderTable(['NAME', 'TEAMS', 'NOTE'], rows, { keepWidth: ['NAME', 'NOTE'] });
}
