import { AmbitError } from '../../errors.ts';
import { type Command, jsonFlag, requirePositional } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';
import { orderFlags, readOrder, requireScope, requireText, scopeFlag } from './policy.ts';

export const objectiveAdd: Command = {
  operands: 'TEXT',
  help: 'Add an objective for models',
  flags: { scope: scopeFlag, ...orderFlags, json: jsonFlag },
  async run(invocation) {
    const objective = await controlRequest(invocation, 'POST /api/v1/objectives', {
      body: { scope: requireScope(invocation), text: requireText(invocation), ...readOrder(invocation) },
    });
    printData(invocation, objective, () =>
      objective.enabled
        ? `Objective ${objective.id} applies to ${objective.scope}.`
        : `Objective ${objective.id} is stored for ${objective.scope}, but disabled.`,
    );
  },
};

export const objectiveList: Command = {
  help: 'List objectives',
  flags: { json: jsonFlag },
  async run(invocation) {
    const found = await controlRequest(invocation, 'GET /api/v1/objectives');
    const rows = found.objectives.map(({ id, scope, text, enabled, declared }) => {
      const notes = [enabled ? '' : 'disabled', declared ? 'in the configuration' : ''];
      return [id, scope, notes.filter((note) => note !== '').join(', '), text];
    });
    printData(invocation, found, () =>
      rows.length === 0
        ? 'No objectives. Add one with "ambit objective add".'
        : renderTable(['ID', 'FROM', 'NOTE', 'TEXT'], rows, { keepWidth: ['ID', 'FROM'] }),
    );
  },
};

export const objectiveRemove: Command = {
  operands: 'ID',
  help: 'Remove an objective',
  flags: { json: jsonFlag },
  async run(invocation) {
    const id = requirePositional(invocation, 'ID');
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/objectives', { body: { id } });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such objective.' });
    printData(invocation, { id, removed }, () => `Removed objective ${id}.`);
  },
};
