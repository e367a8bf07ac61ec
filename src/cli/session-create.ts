import type { SessionView } from '../sessions/session.ts';
import { type Command, jsonFlag, seconds, text, texts } from './command.ts';
import { askGateway } from './control-client.ts';
import { print } from './output.ts';
import { showOne } from './show-session.ts';

export const sessionCreate: Command = {
  path: ['session', 'create'],
  help: 'open a session; prints its record and its token',
  flags: {
    workspace: { type: 'string', value: 'W', help: 'where it works' },
    trust: { type: 'string', value: 'T', help: 'direct or sandboxed' },
    user: { type: 'string', value: 'U', help: 'for whom' },
    agent: { type: 'string', value: 'A', help: 'which agent' },
    name: { type: 'string', value: 'N', help: 'a name, unique per user' },
    ttl: { type: 'string', value: 'SECONDS', help: 'ends when idle for so long' },
    server: { type: 'string', value: 'S', help: 'may use only this server; repeatable', multiple: true },
    permission: { type: 'string', value: 'P', help: 'may do this, as "notes:write"; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await askGateway<SessionView & { token: string }>(invocation, 'POST', '/api/v1/sessions', {
      workspaceId: text(invocation, 'workspace'),
      trustLevel: text(invocation, 'trust'),
      userId: text(invocation, 'user'),
      agentId: text(invocation, 'agent'),
      name: text(invocation, 'name'),
      ttlSeconds: seconds(invocation, 'ttl'),
      servers: texts(invocation, 'server'),
      permissions: texts(invocation, 'permission'),
    });
    print(invocation, view, () => showOne(view));
    return 0;
  },
};
