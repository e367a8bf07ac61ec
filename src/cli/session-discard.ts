import { agreed, yesFlag } from './ask.ts';
import { type Command, jsonFlag, onlyWord, text } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';

interface Discarded {
  readonly sessionId: string;
  readonly workspaceId: string;
}

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
    const workspace = text(invocation, 'workspace');
    const query = workspace === undefined ? '' : `?workspace=${encodeURIComponent(workspace)}`;
    if (!(await agreed(invocation, `Remove the folder of session ${word}, with all that was not merged?`))) return 1;
    const path = `/api/v1/sessions/${encodeURIComponent(word)}/folder${query}`;
    const discarded = await askGateway<Discarded>(invocation, 'DELETE', path);
    print(invocation, discarded, () => `The folder of session ${discarded.sessionId.slice(0, 8)} is gone.`);
    return 0;
  },
};
