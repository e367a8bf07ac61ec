import type { KeyView } from '../gateway/people.ts';
import { type Command, jsonFlag, onlyWord } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';

export const keyRevoke: Command = {
  path: ['key', 'revoke'],
  help: 'make a key worthless for good, and end its sessions',
  operands: 'ID',
  flags: { json: jsonFlag },
  async run(invocation) {
    const path = `/api/v1/keys/${encodeURIComponent(onlyWord(invocation, 'ID'))}`;
    const view = await askGateway<KeyView & { sessions: number }>(invocation, 'DELETE', path);
    print(invocation, view, () => `Revoked ${view.id.slice(0, 8)} of ${view.userId}; ${view.sessions} sessions ended.`);
    return 0;
  },
};
