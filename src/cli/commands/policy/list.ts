import type { AnswerOf } from '../../../entrances/control/routes.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { type Command, type Invocation, jsonFlag, text, UsageFault } from '../../command.ts';
import { controlRequest } from '../../io/control-client.ts';
import { print, table } from '../../io/output.ts';

type Policy = AnswerOf<'GET /api/v1/policies'>['policies'][number];
type JudgedPolicy = AnswerOf<'GET /api/v1/policies/effective'>['policies'][number];

export const policyList: Command = {
  path: ['policy', 'list'],
  help: 'the policies there are; or what a user in a workspace gets, and why',
  flags: {
    effective: { type: 'boolean', help: 'what somebody gets' },
    user: { type: 'string', value: 'U', help: 'for whom (with --effective)' },
    workspace: { type: 'string', value: 'W', help: 'in which workspace' },
    json: jsonFlag,
  },
  run: (invocation) => (invocation.flags['effective'] === true ? effective(invocation) : all(invocation)),
};

async function all(invocation: Invocation): Promise<number> {
  const found = await controlRequest(invocation, 'GET /api/v1/policies');
  const { policies } = found;
  print(invocation, found, () =>
    policies.length === 0 ? 'No policies. Add one with "ambit policy add".' : shown(policies, noteOn),
  );
  return 0;
}

async function effective(invocation: Invocation): Promise<number> {
  const [user, workspace] = [text(invocation, 'user'), text(invocation, 'workspace')];
  if (user === undefined) throw new UsageFault('--user U is missing');
  const found = await controlRequest(invocation, 'GET /api/v1/policies/effective', { query: { user, workspace } });
  const { policies, objectives, block } = found;
  print(invocation, found, () => {
    const plain = block.split('\n').map(escapeControls).join('\n');
    const why = policies.length === 0 ? [] : [shown(policies, (each) => reasonOf(each)), ''];
    const from = objectives.map((each) => [each.scope, each.id, each.text]);
    return [
      ...why,
      ...(from.length === 0
        ? []
        : [table(['FROM', 'OBJECTIVE', 'TEXT'], from, { precious: ['FROM', 'OBJECTIVE'] }), '']),
      plain,
    ].join('\n');
  });
  return 0;
}

function shown<P extends Policy>(policies: readonly P[], note: (policy: P) => string): string {
  const rows = policies.map((each) => [each.scope, each.name, each.mode, note(each), each.text]);
  return table(['FROM', 'POLICY', 'MODE', 'NOTE', 'TEXT'], rows, { precious: ['FROM', 'POLICY', 'NOTE'] });
}

function noteOn({ declared, enabled, locked }: Policy): string {
  const notes = [enabled ? '' : 'disabled', locked ? 'locked' : '', declared ? 'in the configuration' : ''];
  return notes.filter((note) => note !== '').join(', ');
}

function reasonOf({ outcome, by, locked }: JudgedPolicy): string {
  if (outcome === 'given') return locked ? 'given, locked' : 'given';
  return by === null ? outcome : `${outcome} by ${by}`;
}
