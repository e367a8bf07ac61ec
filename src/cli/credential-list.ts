import type { CredentialView } from '../gateway/given-credentials.ts';
import { type Command, jsonFlag, text } from './command.ts';
import { askGateway } from './control-client.ts';
import { credentialFlags } from './credential-name.ts';
import { columns, cut, print, table } from './output.ts';

export const credentialList: Command = {
  path: ['credential', 'list'],
  help: 'the credentials there are, without their values',
  flags: {
    user: credentialFlags.user,
    server: credentialFlags.server,
    json: jsonFlag,
  },
  async run(invocation) {
    const [user, server] = [text(invocation, 'user'), text(invocation, 'server')];
    const path = '/api/v1/credentials';
    const all = (await askGateway<{ credentials: CredentialView[] }>(invocation, 'GET', path)).credentials;
    const credentials = all.filter(
      (each) => (user === undefined || each.userId === user) && (server === undefined || each.server === server),
    );
    print(invocation, { credentials }, () => (credentials.length === 0 ? 'No credentials.' : shown(credentials)));
    return 0;
  },
};

function shown(credentials: readonly CredentialView[]): string {
  const rows = credentials.map(({ userId, server, env, header, setAt, usable }) => [
    cut(userId, columns / 4),
    server,
    cut(env ?? `${header}:`, columns / 4),
    setAt.slice(0, 10),
    usable ? '' : 'cannot be opened with the key here',
  ]);
  return table(['USER', 'SERVER', 'NAME', 'SET', ''], rows);
}
