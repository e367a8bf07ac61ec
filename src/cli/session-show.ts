import type { SessionView } from '../sessions/session.ts';
import { type Command, jsonFlag, onlyWord } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';
import { showOne } from './show-session.ts';

export const sessionShow: Command = {
  path: ['session', 'show'],
  operands: 'ID',
  help: 'one session, by id, name or unique prefix',
  flags: { json: jsonFlag },
  async run(invocation) {
    const reference = encodeURIComponent(onlyWord(invocation, 'ID'));
    const view = await askGateway<SessionView>(invocation, 'GET', `/api/v1/sessions/${reference}`);
    print(invocation, view, () => showOne(view));
    return 0;
  },
};
