import { AmbitError } from '../../../errors.ts';
import { type Command, jsonFlag, text, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { scopeFlag, scopeOf } from './policy-flags.ts';

export const policyRemove: Command = {
  path: ['policy', 'remove'],
  operands: '[NAME]',
  help: 'give it to nobody any more',
  flags: { scope: scopeFlag, name: { type: 'string', value: 'N', help: 'what it is called' }, json: jsonFlag },
  async run(invocation) {
    const name = text(invocation, 'name') ?? invocation.words[0];
    if (name === undefined) throw new UsageFault('--name N is missing');
    const which = { scope: scopeOf(invocation), name };
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/policies', { body: which });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such policy.' });
    print(invocation, { ...which, removed }, () => `Policy ${name} is gone from ${which.scope}.`);
    return 0;
  },
};
