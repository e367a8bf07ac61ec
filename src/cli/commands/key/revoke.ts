import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';

export const keyRevoke: Command = {
  path: ['key', 'revoke'],
  help: 'make a key worthless for good, and end its sessions',
  operands: 'ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const view = await controlRequest(invocation, 'DELETE /api/v1/keys/{id}', { id: onlyWord(invocation, 'ID') });
    print(invocation, view, () => `Revoked ${view.id.slice(0, 8)} of ${view.userId}; ${view.sessions} sessions ended.`);
    return 0;
  },
};
