import { type Command, jsonFlag, onlyWord } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { duration } from '../../io/duration.ts';
import { showKey } from './create.ts';

export const keyRotate: Command = {
  path: ['key', 'rotate'],
  help: 'another secret for the same key; it is shown only here',
  operands: 'ID',
  flags: {
    overlap: { type: 'string', value: 'D', help: 'the old one works this long, as 24h; not at all unless said' },
    json: jsonFlag,
  },
  async run(invocation) {
    const { id, key } = await controlRequest(invocation, 'POST /api/v1/keys/{id}/rotate', {
      id: onlyWord(invocation, 'ID'),
      body: { overlapSeconds: duration(invocation, 'overlap') },
    });
    showKey(id, key);
    return 0;
  },
};
