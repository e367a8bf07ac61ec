import type { UserView } from '../gateway/people.ts';
import { type Command, jsonFlag, onlyWord, texts } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';

interface Removed {
  readonly name: string;
  readonly keys: number;
  readonly sessions: number;
}

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
    const path = `/api/v1/users/${encodeURIComponent(name)}`;
    const left = texts(invocation, 'team');
    if (left === undefined) {
      const removed = await askGateway<Removed>(invocation, 'DELETE', path);
      const { keys, sessions } = removed;
      print(invocation, removed, () => `Removed ${name}: ${keys} keys revoked, ${sessions} sessions ended.`);
      return 0;
    }
    const { teams } = await askGateway<UserView>(invocation, 'GET', path);
    const view = await askGateway<UserView>(invocation, 'PATCH', path, {
      teams: teams.filter((team) => !left.includes(team)),
    });
    print(invocation, view, () => `${name} in ${view.teams.length === 0 ? 'no team' : view.teams.join(', ')}`);
    return 0;
  },
};
