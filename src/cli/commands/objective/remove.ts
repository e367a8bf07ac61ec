import { AmbitError } from '../../../errors.ts';
import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const objectiveRemove: Command = {
  path: ['objective', 'remove'],
  operands: 'ID',
  help: 'give it to nobody any more',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = onlyWord(invocation, 'ID');
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/objectives', { body: { id } });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such objective.' });
    print(invocation, { id, removed }, () => `Objective ${id} is gone.`);
    return 0;
  },
};
