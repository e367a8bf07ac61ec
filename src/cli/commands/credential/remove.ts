import { AmbitError } from '../../../errors.ts';
import { type Command, type Invocation, jsonFlag, text, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { credentialFlags, credentialName } from './credential-name.ts';

export const credentialRemove: Command = {
  path: ['credential', 'remove'],
  help: 'forget a credential, and end what was started with it',
  flags: {
    ...credentialFlags,
    login: { type: 'boolean', help: 'the login of the user there' },
    json: jsonFlag,
  },
  async run(invocation) {
    if (invocation.flags['login'] === true) return removeLogin(invocation);
    const which = credentialName(invocation);
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/credentials', { body: which });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such credential.' });
    print(invocation, { ...which, removed }, () => `Removed for ${which.userId} at ${which.server}.`);
    return 0;
  },
};

async function removeLogin(invocation: Invocation): Promise<number> {
  const [userId, server] = [text(invocation, 'user'), text(invocation, 'server')];
  if (userId === undefined || server === undefined) throw new UsageFault('--user U and --server S are needed');
  if (text(invocation, 'env') !== undefined || text(invocation, 'header') !== undefined) {
    throw new UsageFault('say either --login or the name of a credential');
  }
  const which = { userId, server };
  const { removed } = await controlRequest(invocation, 'DELETE /api/v1/logins', { body: which });
  if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such login.' });
  print(invocation, { ...which, login: true, removed }, () => `${userId} is logged out of ${server}.`);
  return 0;
}
