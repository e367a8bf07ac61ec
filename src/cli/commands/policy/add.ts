import { type Command, jsonFlag, text, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print } from '../../io/output.ts';
import { placeFlags, placeOf, scopeFlag, scopeOf, textOf } from './policy-flags.ts';

export const policyAdd: Command = {
  path: ['policy', 'add'],
  operands: 'TEXT',
  help: 'what the model must keep to; one of the same name there gives way',
  flags: {
    scope: scopeFlag,
    name: { type: 'string', value: 'N', help: 'what it is called' },
    mode: { type: 'string', value: 'M', help: 'prepend or append, around prompts' },
    locked: { type: 'boolean', help: 'no nearer scope may replace it' },
    ...placeFlags,
    json: jsonFlag,
  },
  async run(invocation) {
    const [name, mode = 'prepend'] = [text(invocation, 'name'), text(invocation, 'mode')];
    if (name === undefined) throw new UsageFault('--name N is missing');
    if (mode !== 'prepend' && mode !== 'append') throw new UsageFault('--mode is prepend or append');
    const policy = await controlRequest(invocation, 'POST /api/v1/policies', {
      body: {
        scope: scopeOf(invocation),
        name,
        mode,
        text: textOf(invocation),
        locked: invocation.flags['locked'] === true,
        ...placeOf(invocation),
      },
    });
    print(invocation, policy, () =>
      policy.enabled
        ? `Policy ${policy.name} holds for ${policy.scope}.`
        : `Policy ${policy.name} is kept for ${policy.scope}, and disabled.`,
    );
    return 0;
  },
};
