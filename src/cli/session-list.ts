import type { SessionView } from '../sessions/session.ts';
import { type Command, jsonFlag } from './command.ts';
import { askGateway } from './control-client.ts';
import { print, table } from './output.ts';
import { howLong } from './show-session.ts';

interface Page {
  readonly sessions: readonly SessionView[];
  readonly next: string | null;
}

export const sessionList: Command = {
  path: ['session', 'list'],
  help: 'the live sessions',
  flags: { json: jsonFlag },
  async run(invocation) {
    const sessions: SessionView[] = [];
    for (let path: string | undefined = '/api/v1/sessions'; path !== undefined; ) {
      const page: Page = await askGateway<Page>(invocation, 'GET', path);
      sessions.push(...page.sessions);
      path = page.next === null ? undefined : `/api/v1/sessions?after=${encodeURIComponent(page.next)}`;
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
