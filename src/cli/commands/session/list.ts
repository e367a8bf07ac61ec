import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { type Command, jsonFlag } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';
import { howLong } from './show-session.ts';

type Page = AnswerOf<'GET /api/v1/sessions'>;

export const sessionList: Command = {
  path: ['session', 'list'],
  help: 'the live sessions',
  flags: { json: jsonFlag },
  async run(invocation) {
    const sessions: Page['sessions'][number][] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page: Page = await controlRequest(invocation, 'GET /api/v1/sessions', { query: { after } });
      sessions.push(...page.sessions);
      after = page.next;
    }
    const isLimited = sessions.some(({ servers }) => servers !== null);
    print(invocation, { sessions }, () =>
      sessions.length === 0
        ? 'No live sessions. Open one with "ambit session create".'
        : table(
            ['ID', 'NAME', 'USER', 'WORKSPACE', 'TRUST', 'SERVERS', 'IDLE', 'LEFT'],
            sessions.map((view) => [
              view.id.slice(0, 8),
              view.name ?? '-',
              view.userId,
              view.workspaceId ?? '-',
              view.trustLevel,
              isLimited ? (view.servers === null ? 'all' : String(view.servers.length)) : '',
              howLong(view.lastActiveAt),
              howLong(view.expiresAt),
            ]),
          ),
    );
    return 0;
  },
};
