import { AmbitError } from '../errors.ts';
import { type Command, jsonFlag } from './command.ts';
import { askGateway } from './control-client.ts';
import { credentialFlags, credentialName } from './credential-name.ts';
import { print } from './output.ts';

export const credentialRemove: Command = {
  path: ['credential', 'remove'],
  help: 'forget a credential, and end what was started with it',
  flags: { ...credentialFlags, json: jsonFlag },
  async run(invocation) {
    const which = credentialName(invocation);
    const { removed } = await askGateway<{ removed: boolean }>(invocation, 'DELETE', '/api/v1/credentials', which);
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such credential.' });
    print(invocation, { ...which, removed }, () => `Removed for ${which.userId} at ${which.server}.`);
    return 0;
  },
};
