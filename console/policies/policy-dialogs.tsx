import { request } from '../api/request.ts';
import { ActionDialog } from '../parts/dialog.tsx';
import { Lines, makeVisible } from '../parts/text.tsx';
import { describeScope, type Policy } from './scope.ts';

interface PolicyDialogProps {
  readonly of: Policy;
  readonly onDone: (result: string) => void;
  readonly onClose: () => void;
}

/** Disables a policy, or enables it again. */
export function EnablePolicy({ of, onDone, onClose }: PolicyDialogProps) {
  const { declared, ...policy } = of;
  const verb = of.enabled ? 'Disable' : 'Enable';
  const change = async () => {
    await request('POST /api/v1/policies', { body: { ...policy, enabled: !of.enabled } });
    onDone(`The policy ${of.name} of ${describeScope(of.scope)} is ${of.enabled ? 'disabled' : 'enabled'}.`);
  };
  return (
    <ActionDialog title={`${verb} policy`} action={`${verb} policy ${of.name}`} onRun={change} onClose={onClose}>
      <p>
        {of.enabled
          ? 'The policy is kept, but no model gets it. It no longer replaces or locks policies of the same name.'
          : `Models get the policy again. It applies to: ${makeVisible(describeScope(of.scope))}.`}
      </p>
      <Lines value={of.text} max={2000} />
      <p class="field-hint">Running sessions get the changed texts with their next result.</p>
    </ActionDialog>
  );
}

export function RemovePolicy({ of, onDone, onClose }: PolicyDialogProps) {
  const { scope, name } = of;
  const remove = async () => {
    const { removed } = await request('DELETE /api/v1/policies', { body: { scope, name } });
    onDone(
      removed
        ? `The policy ${name} of ${describeScope(scope)} is removed.`
        : `The policy ${name} of ${describeScope(scope)} had been removed already.`,
    );
  };
  return (
    <ActionDialog
      title="Remove policy"
      action={`Remove policy ${name}`}
      name={name}
      isDanger
      onRun={remove}
      onClose={onClose}
    >
      <p>
        The policy of the scope <strong>{makeVisible(describeScope(scope))}</strong> is deleted. To keep its text,
        disable it instead.
      </p>
      <Lines value={of.text} max={2000} />
    </ActionDialog>
  );
}
