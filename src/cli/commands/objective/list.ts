import { type Command, jsonFlag } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';

export const objectiveList: Command = {
  path: ['objective', 'list'],
  help: 'the objectives there are',
  flags: { json: jsonFlag },
  async run(invocation) {
    const found = await controlRequest(invocation, 'GET /api/v1/objectives');
    const rows = found.objectives.map(({ id, scope, text, enabled, declared }) => {
      const notes = [enabled ? '' : 'disabled', declared ? 'in the configuration' : ''];
      return [id, scope, notes.filter((note) => note !== '').join(', '), text];
    });
    print(invocation, found, () =>
      rows.length === 0
        ? 'No objectives. Add one with "ambit objective add".'
        : table(['ID', 'FROM', 'NOTE', 'TEXT'], rows, { precious: ['ID', 'FROM'] }),
    );
    return 0;
  },
};
