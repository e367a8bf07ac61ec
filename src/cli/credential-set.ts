import { isTerminal } from './ask.ts';
import { type Command, jsonFlag } from './command.ts';
import { controlRequest } from './control-client.ts';
import { credentialFlags, credentialName } from './credential-name.ts';
import { print } from './output.ts';
import { readSecret } from './read-secret.ts';

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
