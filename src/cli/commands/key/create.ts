import { type Command, jsonFlag, text, texts, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { durationOrDay } from '../../io/duration.ts';

export const keyCreate: Command = {
  path: ['key', 'create'],
  help: 'make a key by which a user is known; it is shown only here',
  flags: {
    user: { type: 'string', value: 'U', help: 'whose' },
    expires: { type: 'string', value: 'D', help: 'after a time such as 30d, or with a day' },
    trust: { type: 'string', value: 'T', help: 'the most it may have; direct unless said' },
    workspace: { type: 'string', value: 'W', help: 'only in this workspace; repeatable', multiple: true },
    scope: { type: 'string', value: 'P', help: 'its sessions hold this permission; repeatable', multiple: true },
    json: jsonFlag,
  },
  async run(invocation) {
    const userId = text(invocation, 'user');
    if (userId === undefined) throw new UsageFault('--user U is missing');
    const { id, key } = await controlRequest(invocation, 'POST /api/v1/keys', {
      body: {
        userId,
        trustLevel: text(invocation, 'trust'),
        workspaces: texts(invocation, 'workspace'),
        scopes: texts(invocation, 'scope'),
        lifeSeconds: durationOrDay(invocation, 'expires'),
      },
    });
    showKey(id, key);
    return 0;
  },
};

/** As JSON either way: whoever asks for a key hands it on. */
export function showKey(id: string, key: string): void {
  process.stdout.write(`${JSON.stringify({ id, key })}\n`);
}
