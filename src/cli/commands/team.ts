import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, jsonFlag } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

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

function renderTeams({ teams }: AnswerOf<'GET /api/v1/teams'>): string {
  const rows = teams.map(({ name, declared, members }) => [
    name,
    members.length === 0 ? '-' : members.join(', '),
    declared ? 'in the configuration' : '',
  ]);
  return renderTable(['TEAM', 'MEMBERS', 'NOTE'], rows, { keepWidth: ['TEAM', 'NOTE'] });
}
