import { type Command, jsonFlag, onlyWord, texts } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const userRemove: Command = {
  path: ['user', 'remove'],
  help: 'remove a user with all keys, or only from some teams',
  operands: 'NAME',
  flags: {
    team: { type: 'string', value: 'T', help: 'only from this team; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const name = onlyWord(invocation, 'NAME');
    const left = texts(invocation, 'team');
    if (left === undefined) {
      const removed = await controlRequest(invocation, 'DELETE /api/v1/users/{id}', { id: name });
      const { keys, sessions } = removed;
      print(invocation, removed, () => `Removed ${name}: ${keys} keys revoked, ${sessions} sessions ended.`);
      return 0;
    }
    const { teams } = await controlRequest(invocation, 'GET /api/v1/users/{id}', { id: name });
    const view = await controlRequest(invocation, 'PATCH /api/v1/users/{id}', {
      id: name,
      body: { teams: teams.filter((team) => !left.includes(team)) },
    });
    print(invocation, view, () => `${name} in ${view.teams.length === 0 ? 'no team' : view.teams.join(', ')}`);
    return 0;
  },
};
