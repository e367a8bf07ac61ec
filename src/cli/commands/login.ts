import { type Command, jsonFlag, onlyWord, text, UsageFault } from '../command.ts';
import { tell } from '../io/ask.ts';
import { awaitCallback } from '../io/await-callback.ts';
import { controlRequest } from '../io/control-client.ts';
import { print } from '../io/output.ts';

const patienceMs = 600_000;

export const loginCommand: Command = {
  path: ['login'],
  operands: 'SERVER',
  help: 'log a user in to a server, in the browser',
  flags: { user: { type: 'string', value: 'U', help: 'for whom' }, json: jsonFlag },
  async run(invocation) {
    const server = onlyWord(invocation, 'SERVER');
    const userId = text(invocation, 'user');
    if (userId === undefined) throw new UsageFault('--user U is missing');
    const which = { userId, server };
    const back = await awaitCallback(patienceMs);
    try {
      const body = { ...which, port: back.port };
      const started = await controlRequest(invocation, 'POST /api/v1/logins', { body });
      const state = new URL(started.authorizationUrl).searchParams.get('state') ?? '';
      tell([
        `Open this address in a browser on this machine, and log in as ${userId}:`,
        '',
        started.authorizationUrl,
        '',
      ]);
      const view = await back.come(state, (callback) =>
        controlRequest(invocation, 'POST /api/v1/logins/complete', { body: { ...which, callback } }),
      );
      print(invocation, view, () => `${userId} is logged in to ${server}, at ${view.issuer}.`);
      return 0;
    } finally {
      await back.close();
    }
  },
};
