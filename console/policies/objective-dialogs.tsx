import { useSignal } from '@preact/signals';
import { request } from '../api/request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { CheckField, LinesField, TextField } from '../parts/fields.tsx';
import { Lines, makeVisible } from '../parts/text.tsx';
import { describeScope, type Objective, writeScope } from './scope.ts';
import { ScopeFields } from './scope-fields.tsx';

interface ObjectiveDialogProps {
  readonly onDone: (result: string) => void;
  readonly onClose: () => void;
}

export function AddObjective({ onDone, onClose }: ObjectiveDialogProps) {
  const kind = useSignal('org');
  const scopeName = useSignal('');
  const text = useSignal('');
  const order = useSignal('0');
  const isEnabled = useSignal(true);
  const scope = writeScope(kind.value, scopeName.value.trim());
  const add = async () => {
    const added = await request('POST /api/v1/objectives', {
      body: { scope, text: text.value, order: Number(order.value), enabled: isEnabled.value },
    });
    onDone(`The objective ${added.id} applies to: ${describeScope(added.scope)}.`);
  };
  return (
    <ActionDialog
      title="Add objective"
      action="Add objective"
      canRun={text.value.trim() !== '' && (kind.value === 'org' || scopeName.value.trim() !== '')}
      onRun={add}
      onClose={onClose}
    >
      <ScopeFields kind={kind} name={scopeName} />
      <LinesField label="Text" value={text} hint="Objectives of all scopes are combined." />
      <TextField label="Order" type="number" value={order} hint="Lower numbers come first." />
      <CheckField label="Enabled" value={isEnabled} hint="A disabled objective is kept, but no model gets it." />
    </ActionDialog>
  );
}

export function RemoveObjective({ of, onDone, onClose }: ObjectiveDialogProps & { readonly of: Objective }) {
  const remove = async () => {
    const { removed } = await request('DELETE /api/v1/objectives', { body: { id: of.id } });
    onDone(removed ? `The objective ${of.id} is removed.` : `The objective ${of.id} had been removed already.`);
  };
  return (
    <ActionDialog
      title="Remove objective"
      action={`Remove objective ${of.id}`}
      name={of.id}
      isDanger
      onRun={remove}
      onClose={onClose}
    >
      <p>
        The objective of the scope <strong>{makeVisible(describeScope(of.scope))}</strong> is deleted.
      </p>
      <Lines value={of.text} max={2000} />
    </ActionDialog>
  );
}
