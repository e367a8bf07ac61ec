import type { AnswerOf } from '../../entrances/control/routes.ts';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import {
  type Command,
  type Flag,
  type Invocation,
  jsonFlag,
  readFlag,
  requireFlag,
  requirePositional,
  UsageError,
} from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

const scopeFlag: Flag = {
  type: 'string',
  value: 'SCOPE',
  help: 'Scope: org, team:NAME, user:NAME or workspace:NAME',
};

const orderFlags = {
  order: { type: 'string', value: 'N', help: 'Position within the scope; lower numbers come first' },
  disabled: { type: 'boolean', help: 'Store it, but do not apply it' },
} as const satisfies Readonly<Record<string, Flag>>;

export const policyAdd: Command = {
  operands: 'TEXT',
  help: 'Add a policy for models, or replace the one of that name',
  flags: {
    scope: scopeFlag,
    name: { type: 'string', value: 'NAME', help: 'Name of the policy' },
    mode: {
      type: 'string',
      value: 'MODE',
      help: 'Place around prompts: prepend (default) or append',
      choices: ['prepend', 'append'],
    },
    locked: { type: 'boolean', help: 'Do not let narrower scopes replace it' },
    ...orderFlags,
    json: jsonFlag,
  },
  async run(invocation) {
    const name = requireFlag(invocation, 'name', 'NAME');
    const mode = readFlag(invocation, 'mode') ?? 'prepend';
    if (mode !== 'prepend' && mode !== 'append') throw new UsageError('--mode takes "prepend" or "append"');
    const policy = await controlRequest(invocation, 'POST /api/v1/policies', {
      body: {
        scope: requireScope(invocation),
        name,
        mode,
        text: requireText(invocation),
        locked: invocation.flags['locked'] === true,
        ...readOrder(invocation),
      },
    });
    printData(invocation, policy, () =>
      policy.enabled
        ? `Policy ${policy.name} applies to ${policy.scope}.`
        : `Policy ${policy.name} is stored for ${policy.scope}, but disabled.`,
    );
  },
};

type Policy = AnswerOf<'GET /api/v1/policies'>['policies'][number];
type JudgedPolicy = AnswerOf<'GET /api/v1/policies/effective'>['policies'][number];

export const policyList: Command = {
  help: 'List policies, or those that apply to a user',
  flags: {
    effective: { type: 'boolean', help: 'Show what applies to a user, and why' },
    user: { type: 'string', value: 'NAME', help: 'User, with --effective' },
    workspace: { type: 'string', value: 'NAME', help: 'Workspace, with --effective' },
    json: jsonFlag,
  },
  run: (invocation) =>
    invocation.flags['effective'] === true ? listEffectivePolicies(invocation) : listPolicies(invocation),
};

export const policyRemove: Command = {
  operands: '[NAME]',
  help: 'Remove a policy',
  flags: { scope: scopeFlag, name: { type: 'string', value: 'NAME', help: 'Name of the policy' }, json: jsonFlag },
  async run(invocation) {
    const name = readFlag(invocation, 'name') ?? invocation.positionals[0];
    if (name === undefined) throw new UsageError('--name NAME is missing');
    const which = { scope: requireScope(invocation), name };
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/policies', { body: which });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such policy.' });
    printData(invocation, { ...which, removed }, () => `Removed policy ${name} from ${which.scope}.`);
  },
};

async function listPolicies(invocation: Invocation): Promise<undefined> {
  const found = await controlRequest(invocation, 'GET /api/v1/policies');
  const { policies } = found;
  printData(invocation, found, () =>
    policies.length === 0 ? 'No policies. Add one with "ambit policy add".' : renderPolicies(policies, policyNotes),
  );
}

async function listEffectivePolicies(invocation: Invocation): Promise<undefined> {
  const [user, workspace] = [requireFlag(invocation, 'user', 'NAME'), readFlag(invocation, 'workspace')];
  const found = await controlRequest(invocation, 'GET /api/v1/policies/effective', { query: { user, workspace } });
  const { policies, objectives, block } = found;
  printData(invocation, found, () => {
    const plain = block.split('\n').map(escapeControls).join('\n');
    const why = policies.length === 0 ? [] : [renderPolicies(policies, policyReason), ''];
    const from = objectives.map((each) => [each.scope, each.id, each.text]);
    return [
      ...why,
      ...(from.length === 0
        ? []
        : [renderTable(['FROM', 'OBJECTIVE', 'TEXT'], from, { keepWidth: ['FROM', 'OBJECTIVE'] }), '']),
      plain,
    ].join('\n');
  });
}

function renderPolicies<P extends Policy>(policies: readonly P[], note: (policy: P) => string): string {
  const rows = policies.map((each) => [each.scope, each.name, each.mode, note(each), each.text]);
  return renderTable(['FROM', 'POLICY', 'MODE', 'NOTE', 'TEXT'], rows, { keepWidth: ['FROM', 'POLICY', 'NOTE'] });
}

function policyNotes({ declared, enabled, locked }: Policy): string {
  const notes = [enabled ? '' : 'disabled', locked ? 'locked' : '', declared ? 'in the configuration' : ''];
  return notes.filter((note) => note !== '').join(', ');
}

function policyReason({ outcome, by, locked }: JudgedPolicy): string {
  if (outcome === 'given') return locked ? 'given, locked' : 'given';
  return by === null ? outcome : `${outcome} by ${by}`;
}

function requireScope(invocation: Invocation): string {
  const scope = readFlag(invocation, 'scope');
  if (scope === undefined)
    throw new UsageError('--scope SCOPE is missing', 'Use org, team:NAME, user:NAME or workspace:NAME.');
  return scope;
}

/** Reads the order among the others, and whether it is disabled, as far as the flags say so. */
function readOrder(invocation: Invocation): { readonly order?: number; readonly enabled?: boolean } {
  const order = readFlag(invocation, 'order');
  if (order !== undefined && !/^-?[0-9]{1,7}$/.test(order)) throw new UsageError('--order takes a whole number');
  return {
    ...(order === undefined ? {} : { order: Number(order) }),
    ...(invocation.flags['disabled'] === true ? { enabled: false } : {}),
  };
}

/** The text of a policy or objective; several positionals are one text. */
function requireText(invocation: Invocation): string {
  if (invocation.positionals.length === 0) throw new UsageError('TEXT is missing');
  return invocation.positionals.join(' ');
}

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
