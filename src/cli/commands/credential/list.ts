import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { type Command, jsonFlag, text } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';
import { credentialFlags } from './credential-name.ts';

export const credentialList: Command = {
  path: ['credential', 'list'],
  help: 'the credentials and logins there are, without their values',
  flags: {
    user: credentialFlags.user,
    server: credentialFlags.server,
    json: jsonFlag,
  },
  async run(invocation) {
    const [user, server] = [text(invocation, 'user'), text(invocation, 'server')];
    const fits = (each: { readonly userId: string; readonly server: string }) =>
      (user === undefined || each.userId === user) && (server === undefined || each.server === server);
    const given = await controlRequest(invocation, 'GET /api/v1/credentials');
    const made = await controlRequest(invocation, 'GET /api/v1/logins');
    const [credentials, logins] = [given.credentials.filter(fits), made.logins.filter(fits)];
    const rows = [...credentials.map(credentialRow), ...logins.map(loginRow)];
    const show = () =>
      rows.length === 0
        ? 'No credentials. Keep one with "ambit credential set".'
        : table(['USER', 'SERVER', 'NAME', 'SET', 'NOTE'], rows);
    print(invocation, { credentials, logins }, show);
    return 0;
  },
};

type Credential = AnswerOf<'GET /api/v1/credentials'>['credentials'][number];

function credentialRow({ userId, server, env, header, setAt, usable }: Credential): string[] {
  const state = usable ? '' : 'cannot be opened with the key here';
  return [userId, server, env ?? `${header}:`, setAt.slice(0, 10), state];
}

const loginStates = { active: '', lost: 'lost: log in again', wanted: 'log in again: more is wanted' };

function loginRow({ userId, server, madeAt, state }: AnswerOf<'GET /api/v1/logins'>['logins'][number]): string[] {
  return [userId, server, '(login)', madeAt.slice(0, 10), loginStates[state]];
}
