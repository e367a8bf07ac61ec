import { type Command, jsonFlag } from '../../command.ts';
import { isTerminal } from '../../io/ask.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { readSecret } from '../../io/read-secret.ts';
import { credentialFlags, credentialName } from './credential-name.ts';

export const credentialSet: Command = {
  path: ['credential', 'set'],
  help: 'keep what a server needs for a user; the value comes from stdin',
  flags: { ...credentialFlags, json: jsonFlag },
  async run(invocation) {
    const which = credentialName(invocation);
    const value = await readSecret(process.stdin, isTerminal() ? process.stderr : undefined);
    await controlRequest(invocation, 'POST /api/v1/credentials', { body: { ...which, value } });
    print(invocation, { ...which, set: true }, () => `Kept for ${which.userId} at ${which.server}.`);
    return 0;
  },
};
