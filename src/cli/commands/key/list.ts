import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { type Command, jsonFlag, text } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';
import { fromNow } from '../session/show-session.ts';

export const keyList: Command = {
  path: ['key', 'list'],
  help: 'the keys there are; never what proves them',
  flags: { user: { type: 'string', value: 'U', help: 'only of this user' }, json: jsonFlag },
  async run(invocation) {
    const query = { user: text(invocation, 'user') };
    const listed = await controlRequest(invocation, 'GET /api/v1/keys', { query });
    print(invocation, listed, () =>
      listed.keys.length === 0 ? 'No keys. Make one with "ambit key create --user U".' : shown(listed),
    );
    return 0;
  },
};

function shown({ keys }: AnswerOf<'GET /api/v1/keys'>): string {
  const rows = keys.map(({ id, userId, state, trustLevel, workspaces, lastUsedAt, expiresAt }) => [
    id.slice(0, 8),
    userId,
    state,
    trustLevel,
    workspaces === null ? 'all' : workspaces.join(', '),
    lastUsedAt === null ? 'never' : fromNow(lastUsedAt),
    expiresAt === null ? 'never' : fromNow(expiresAt),
  ]);
  return table(['ID', 'USER', 'STATE', 'TRUST', 'WORKSPACES', 'USED', 'EXPIRES'], rows);
}
