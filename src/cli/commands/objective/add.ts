import { type Command, jsonFlag } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { placeFlags, placeOf, scopeFlag, scopeOf, textOf } from '../policy/policy-flags.ts';

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
