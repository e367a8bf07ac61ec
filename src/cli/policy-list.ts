import { escapeControls } from '../escape-controls.ts';
import type { ObjectiveView, PolicyView } from '../gateway/governing.ts';
import { type Command, type Invocation, jsonFlag, text, UsageFault } from './command.ts';
import { askGateway } from './control-client.ts';
import { print, table } from './output.ts';

interface Effective {
  readonly policies: readonly (PolicyView & { readonly outcome: string; readonly by: string | null })[];
  readonly objectives: readonly ObjectiveView[];
  readonly block: string;
}

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
  const found = await askGateway<{ policies: readonly PolicyView[] }>(invocation, 'GET', '/api/v1/policies');
  const { policies } = found;
  print(invocation, found, () =>
    policies.length === 0 ? 'No policies. Add one with "ambit policy add".' : shown(policies, noteOn),
  );
  return 0;
}

async function effective(invocation: Invocation): Promise<number> {
  const [user, workspace] = [text(invocation, 'user'), text(invocation, 'workspace')];
  if (user === undefined) throw new UsageFault('--user U is missing');
  const query = new URLSearchParams({ user, ...(workspace === undefined ? {} : { workspace }) });
  const found = await askGateway<Effective>(invocation, 'GET', `/api/v1/policies/effective?${query}`);
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

function shown<P extends PolicyView>(policies: readonly P[], note: (policy: P) => string): string {
  const rows = policies.map((each) => [each.scope, each.name, each.mode, note(each), each.text]);
  return table(['FROM', 'POLICY', 'MODE', 'NOTE', 'TEXT'], rows, { precious: ['FROM', 'POLICY', 'NOTE'] });
}

function noteOn({ declared, enabled, locked }: PolicyView): string {
  const notes = [enabled ? '' : 'disabled', locked ? 'locked' : '', declared ? 'in the configuration' : ''];
  return notes.filter((note) => note !== '').join(', ');
}

function reasonOf({ outcome, by, locked }: Effective['policies'][number]): string {
  if (outcome === 'given') return locked ? 'given, locked' : 'given';
  return by === null ? outcome : `${outcome} by ${by}`;
}
