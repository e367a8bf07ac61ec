import { type Command, jsonFlag, onlyWord, texts } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const userAdd: Command = {
  path: ['user', 'add'],
  help: 'add a user, or put one into further teams',
  operands: 'NAME',
  flags: { team: { type: 'string', value: 'T', help: 'in this team; repeatable', multiple: true }, json: jsonFlag },
  async run(invocation) {
    const name = onlyWord(invocation, 'NAME');
    const view = await controlRequest(invocation, 'POST /api/v1/users', {
      body: { name, teams: texts(invocation, 'team') },
    });
    print(invocation, view, () => (view.teams.length === 0 ? view.name : `${view.name} in ${view.teams.join(', ')}`));
    return 0;
  },
};
