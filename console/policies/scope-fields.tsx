import type { Signal } from '@preact/signals';
import { useRequest } from '../api/use-request.ts';
import { ChoiceField, TextField } from '../parts/fields.tsx';
import { useWorkspaceNames } from '../parts/use-workspaces.ts';
import { scopeKinds } from './scope.ts';

const hints: Readonly<Record<string, string>> = {
  org: 'Applies to everybody.',
  team: 'Applies to the members of the team.',
  user: 'Applies to this user.',
  workspace: 'Applies to every session in this workspace.',
};

interface ScopeFieldsProps {
  readonly kind: Signal<string>;
  readonly name: Signal<string>;
  readonly isFixed?: boolean;
}

/** The scope of a policy or an objective: a kind, and a name unless it is the organisation. */
export function ScopeFields({ kind, name, isFixed = false }: ScopeFieldsProps) {
  const teams = useRequest('GET /api/v1/teams').answer.value?.teams ?? [];
  const users = useRequest('GET /api/v1/users').answer.value?.users ?? [];
  const workspaces = useWorkspaceNames();
  const known: Readonly<Record<string, readonly string[]>> = {
    team: teams.map((team) => team.name),
    user: users.map((user) => user.name),
    workspace: workspaces,
  };
  const label = scopeKinds.find(([each]) => each === kind.value)?.[1] ?? '';
  return (
    <div class="field-row">
      <ChoiceField label="Scope" value={kind} options={scopeKinds} isFixed={isFixed} hint={hints[kind.value]} />
      {kind.value !== 'org' && (
        <TextField label={label} value={name} isRequired isFixed={isFixed} known={known[kind.value] ?? []} />
      )}
    </div>
  );
}
