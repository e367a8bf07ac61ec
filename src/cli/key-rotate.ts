import { type Command, jsonFlag, onlyWord } from './command.ts';
import { askGateway } from './control-client.ts';
import { duration } from './duration.ts';
import { showKey } from './key-create.ts';

export const keyRotate: Command = {
  path: ['key', 'rotate'],
  help: 'another secret for the same key; it is shown only here',
  operands: 'ID',
  flags: {
    overlap: { type: 'string', value: 'D', help: 'the old one works this long, as 24h; not at all unless said' },
    json: jsonFlag,
  },
  async run(invocation) {
    const path = `/api/v1/keys/${encodeURIComponent(onlyWord(invocation, 'ID'))}/rotate`;
    const overlapSeconds = duration(invocation, 'overlap');
    const { id, key } = await askGateway<{ id: string; key: string }>(invocation, 'POST', path, { overlapSeconds });
    showKey(id, key);
    return 0;
  },
};
