import { type Command, jsonFlag, seconds, text, texts, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
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
    parent: { type: 'string', value: 'ID', help: 'a session that bounds it, and ends it by ending' },
    server: { type: 'string', value: 'S', help: 'may use only this server; repeatable', multiple: true },
    permission: { type: 'string', value: 'P', help: 'may do this, as "notes:write"; repeatable', multiple: true },
    meta: { type: 'string', value: 'K=V', help: 'keep this with it; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const view = await controlRequest(invocation, 'POST /api/v1/sessions', {
      body: {
        workspaceId: text(invocation, 'workspace'),
        trustLevel: text(invocation, 'trust'),
        userId: text(invocation, 'user'),
        agentId: text(invocation, 'agent'),
        name: text(invocation, 'name'),
        ttlSeconds: seconds(invocation, 'ttl'),
        parentId: text(invocation, 'parent'),
        servers: texts(invocation, 'server'),
        permissions: texts(invocation, 'permission'),
        metadata: metadataOf(texts(invocation, 'meta')),
      },
    });
    print(invocation, view, () => showOne(view));
    return 0;
  },
};

function metadataOf(pairs: readonly string[] | undefined): Record<string, string> | undefined {
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const cut = pair.indexOf('=');
      if (cut < 1) throw new UsageFault('--meta takes KEY=VALUE');
      return [pair.slice(0, cut), pair.slice(cut + 1)];
    }),
  );
}
