import type { SessionView } from '../sessions/session.ts';
import { type Command, jsonFlag, onlyWord } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';

export const sessionEnd: Command = {
  path: ['session', 'end'],
  operands: 'ID',
  help: 'end a session and everything that runs for it',
  flags: { json: jsonFlag },
  async run(invocation) {
    const reference = encodeURIComponent(onlyWord(invocation, 'ID'));
    const view = await askGateway<SessionView>(invocation, 'DELETE', `/api/v1/sessions/${reference}`);
    print(invocation, view, () => `Session ${view.id.slice(0, 8)} has ended.`);
    return 0;
  },
};
