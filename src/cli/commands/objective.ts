import { AmbitError } from '../../errors.ts';
import { type Command, jsonFlag, onlyWord } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { print, table } from '../io/output.ts';
import { placeFlags, placeOf, scopeFlag, scopeOf, textOf } from './policy.ts';

export const objectiveAdd: Command = {
  path: ['objective', 'add'],
  operands: 'TEXT',
  help: 'what the work is for, in words for the model',
  flags: { scope: scopeFlag, ...placeFlags, json: jsonFlag },
  async run(invocation) {
    const objective = await controlRequest(invocation, 'POST /api/v1/objectives', {
      body: { scope: scopeOf(invocation), text: textOf(invocation), ...placeOf(invocation) },
    });
    print(invocation, objective, () =>
      objective.enabled
        ? `Objective ${objective.id} holds for ${objective.scope}.`
        : `Objective ${objective.id} is kept for ${objective.scope}, and disabled.`,
    );
    return 0;
  },
};

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

export const objectiveRemove: Command = {
  path: ['objective', 'remove'],
  operands: 'ID',
  help: 'give it to nobody any more',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = onlyWord(invocation, 'ID');
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/objectives', { body: { id } });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such objective.' });
    print(invocation, { id, removed }, () => `Objective ${id} is gone.`);
    return 0;
  },
};
