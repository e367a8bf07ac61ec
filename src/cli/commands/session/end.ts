import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const sessionEnd: Command = {
  path: ['session', 'end'],
  operands: 'ID',
  help: 'end a session and everything that runs for it',
  flags: { json: jsonFlag },
  async run(invocation) {
    const view = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}', { id: onlyWord(invocation, 'ID') });
    print(invocation, view, () => `Session ${view.id.slice(0, 8)} has ended.`);
    return 0;
  },
};
