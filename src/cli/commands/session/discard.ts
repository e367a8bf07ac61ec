import { type Command, jsonFlag, onlyWord, text } from '../../command.ts';
import { agreed, yesFlag } from '../../io/ask.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const sessionDiscard: Command = {
  path: ['session', 'discard'],
  operands: 'ID',
  help: 'remove the folder an ended session left',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'which folder, where it has several' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const word = onlyWord(invocation, 'ID');
    if (!(await agreed(invocation, `Remove the folder of session ${word}, with all that was not merged?`))) return 1;
    const discarded = await controlRequest(invocation, 'DELETE /api/v1/sessions/{id}/folder', {
      id: word,
      query: { workspace: text(invocation, 'workspace') },
    });
    print(invocation, discarded, () => `The folder of session ${discarded.sessionId.slice(0, 8)} is gone.`);
    return 0;
  },
};
