import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type AnswerOf, request } from '../api/request.ts';
import { type Loaded, useRequest } from '../api/use-request.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { CheckField, ChoiceField, LinesField, TextField } from '../parts/fields.tsx';
import { Answer, ErrorNotice, Notice } from '../parts/notice.tsx';
import { makeVisible } from '../parts/text.tsx';
import { useWorkspaceNames } from '../parts/use-workspaces.ts';
import { Block, explainOutcome, OutcomeBadge } from './effective.tsx';
import { describeScope, type Policy, readScope, writeScope } from './scope.ts';
import { ScopeFields } from './scope-fields.tsx';

interface PolicyEditorProps {
  /** The policy to edit; undefined for a new one. */
  readonly of?: Policy;
  readonly policies: Loaded<AnswerOf<'GET /api/v1/policies'>>;
  readonly onSaved: () => void;
  readonly onClose: () => void;
}

const maxText = 16_384;

/** Adds or edits a policy. It stays open after saving, so that the preview shows the effect. */
export function PolicyEditor({ of, policies, onSaved, onClose }: PolicyEditorProps) {
  const saved = useSignal(of);
  const start = readScope(of?.scope ?? 'org');
  const kind = useSignal(start.kind);
  const scopeName = useSignal(start.name);
  const name = useSignal(of?.name ?? '');
  const mode = useSignal<string>(of?.mode ?? 'prepend');
  const text = useSignal(of?.text ?? '');
  const order = useSignal(String(of?.order ?? 0));
  const isLocked = useSignal(of?.locked ?? false);
  const isEnabled = useSignal(of?.enabled ?? true);
  const isBusy = useSignal(false);
  const message = useSignal('');
  const error = useSignal<Error | undefined>(undefined);
  const isFixed = saved.value !== undefined;
  const scope = writeScope(kind.value, scopeName.value.trim());
  const existing = isFixed
    ? undefined
    : policies.answer.value?.policies.find((each) => each.scope === scope && each.name === name.value.trim());
  const isComplete =
    name.value.trim() !== '' && text.value.trim() !== '' && (kind.value === 'org' || scopeName.value.trim() !== '');
  const isChanged =
    saved.value !== undefined &&
    (saved.value.text !== text.value ||
      saved.value.mode !== mode.value ||
      String(saved.value.order) !== order.value ||
      saved.value.locked !== isLocked.value ||
      saved.value.enabled !== isEnabled.value);
  const canSave = isComplete && existing?.declared !== true;
  const save = async () => {
    if (!canSave || isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    message.value = '';
    try {
      saved.value = await request('POST /api/v1/policies', {
        body: {
          scope,
          name: name.value.trim(),
          mode: mode.value === 'append' ? 'append' : 'prepend',
          text: text.value,
          order: Number(order.value),
          locked: isLocked.value,
          enabled: isEnabled.value,
        },
      });
      message.value = `Saved for: ${describeScope(scope)}. Running sessions get the change with their next result.`;
      onSaved();
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={of === undefined ? 'Add policy' : `Edit policy ${of.name}`} onClose={onClose} isWide>
      <form
        class="policies-editor"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <div class="policies-editor-fields">
          <ScopeFields kind={kind} name={scopeName} isFixed={isFixed} />
          <div class="field-row">
            <TextField label="Name" value={name} isRequired isFixed={isFixed} maxLength={64} />
            <ChoiceField
              label="Mode"
              value={mode}
              options={[
                ['prepend', 'prepend'],
                ['append', 'append'],
              ]}
            />
            <TextField label="Order" type="number" value={order} />
          </div>
          <p class="field-hint">
            The mode places it before or after the messages of a prompt. Lower orders come first within the scope.
            {isFixed
              ? ' The scope and the name identify the policy. To change them, add a new policy and remove this one.'
              : ''}
          </p>
          <LinesField label="Text" value={text} maxLength={maxText} />
          <CheckField label="Locked." value={isLocked} hint="Narrower scopes cannot replace it." />
          <CheckField label="Enabled." value={isEnabled} hint="A disabled policy is kept, but no model gets it." />
          {existing !== undefined && (
            <Notice tone="warn">
              {existing.declared
                ? 'The configuration declares a policy of this name and scope. It can only be changed there.'
                : 'This scope has a policy of this name. Saving replaces it.'}
            </Notice>
          )}
          {error.value !== undefined && <ErrorNotice error={error.value} />}
          {message.value !== '' && !isChanged && <Notice tone="good">{makeVisible(message.value)}</Notice>}
          <div class="dialog-actions">
            <Button onClick={onClose}>Close</Button>
            <Button type="submit" kind="primary" disabled={!canSave} isBusy={isBusy.value}>
              Save policy
            </Button>
          </div>
        </div>
        <EditorPreview scope={scope} saved={saved.value} isChanged={isChanged} />
      </form>
    </Dialog>
  );
}

interface EditorPreviewProps {
  readonly scope: string;
  readonly saved: Policy | undefined;
  /** True if the form differs from what is saved. */
  readonly isChanged: boolean;
}

/** What a chosen user gets at present. It is read again after each save. */
function EditorPreview({ scope, saved, isChanged }: EditorPreviewProps) {
  const { kind, name } = readScope(scope);
  const users = useRequest('GET /api/v1/users').answer.value?.users ?? [];
  const workspaces = useWorkspaceNames();
  const chosenUser = useSignal('');
  const chosenWorkspace = useSignal('');
  const member = users.find(({ teams }) => kind !== 'team' || teams.includes(name))?.name ?? '';
  const user = chosenUser.value.trim() || (kind === 'user' && name !== '' ? name : member);
  const workspace = chosenWorkspace.value.trim() || (kind === 'workspace' ? name : '');
  const query = { user, workspace: workspace === '' ? undefined : workspace };
  const effective = useRequest('GET /api/v1/policies/effective', { query }, { when: user !== '' });
  useEffect(() => {
    if (saved !== undefined && user !== '') void effective.reload();
  }, [saved]);
  return (
    <section class="policies-editor-preview" aria-label="Preview">
      <h3>
        What the model gets{' '}
        {saved === undefined ? 'until this policy is saved' : isChanged ? 'until the changes are saved' : 'now'}
      </h3>
      <div class="field-row">
        <TextField
          label="Preview for user"
          value={chosenUser}
          placeholder={user}
          known={users.map((each) => each.name)}
        />
        <TextField label="In workspace" value={chosenWorkspace} placeholder={workspace || 'None'} known={workspaces} />
      </div>
      {user === '' ? (
        <p class="muted">Choose a user to see what the model gets in their sessions.</p>
      ) : (
        <Answer of={effective}>
          {({ policies, block }) => {
            const own = policies.find((each) => each.scope === saved?.scope && each.name === saved.name);
            return (
              <>
                {saved !== undefined && (
                  <p class="policies-name" role="status">
                    {own === undefined ? (
                      `The scope of this policy does not include ${makeVisible(user)}${workspace === '' ? '' : ` in ${makeVisible(workspace)}`}.`
                    ) : (
                      <>
                        This policy: <OutcomeBadge of={own} /> {makeVisible(explainOutcome(own))}
                      </>
                    )}
                  </p>
                )}
                <Block text={block} />
              </>
            );
          }}
        </Answer>
      )}
    </section>
  );
}
