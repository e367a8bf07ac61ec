import type { AnswerOf } from '../../entrances/control/routes.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import { type Command, jsonFlag, readListFlag, requirePositional } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

export const userAdd: Command = {
  help: 'Add a user, or add a user to more teams',
  operands: 'NAME',
  flags: { team: { type: 'string', value: 'NAME', help: 'Team to add the user to', multiple: true }, json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const view = await controlRequest(invocation, 'POST /api/v1/users', {
      body: { name, teams: readListFlag(invocation, 'team') },
    });
    printData(invocation, view, () =>
      view.teams.length === 0 ? `User ${view.name}` : `User ${view.name}, in ${view.teams.join(', ')}`,
    );
  },
};

export const userList: Command = {
  help: 'List users',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/users');
    printData(invocation, listed, () =>
      listed.users.length === 0 ? 'No users. Add one with "ambit user add NAME".' : renderUsers(listed),
    );
  },
};

export const userRemove: Command = {
  help: 'Remove a user with all keys, or only from teams',
  operands: 'NAME',
  flags: {
    team: { type: 'string', value: 'NAME', help: 'Only remove the user from this team', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const leftTeams = readListFlag(invocation, 'team');
    if (leftTeams === undefined) {
      const removed = await controlRequest(invocation, 'DELETE /api/v1/users/{id}', { id: name });
      const { keys, sessions } = removed;
      printData(
        invocation,
        removed,
        () => `Removed ${name}: ${formatCount(keys, 'key')} revoked, ${formatCount(sessions, 'session')} ended.`,
      );
      return 0;
    }
    const { teams } = await controlRequest(invocation, 'GET /api/v1/users/{id}', { id: name });
    const view = await controlRequest(invocation, 'PATCH /api/v1/users/{id}', {
      id: name,
      body: { teams: teams.filter((team) => !leftTeams.includes(team)) },
    });
    printData(
      invocation,
      view,
      () => `${name} is now in ${view.teams.length === 0 ? 'no team' : view.teams.join(', ')}.`,
    );
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

function renderTeams({ teams }: AnswerOf<'GET /api/v1/teams'>): string {
  const rows = teams.map(({ name, declared, members }) => [
    name,
    members.length === 0 ? '-' : members.join(', '),
    declared ? 'in the configuration' : '',
  ]);
  return renderTable(['TEAM', 'MEMBERS', 'NOTE'], rows, { keepWidth: ['TEAM', 'NOTE'] });
}

export const teamList: Command = {
  help: 'List teams and their members',
  flags: { json: jsonFlag },
  async run(invocation) {
    const listed = await controlRequest(invocation, 'GET /api/v1/teams');
    printData(invocation, listed, () =>
      listed.teams.length === 0
        ? 'No teams. Add a user to one with "ambit user add NAME --team TEAM".'
        : renderTeams(listed),
    );
  },
};
