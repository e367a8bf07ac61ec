import { useSignal } from '@preact/signals';
import { type AnswerOf, request } from '../api/request.ts';
import { type Loaded, useRequest } from '../api/use-request.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { CheckField, ChoiceField, LinesField, TextField } from '../parts/fields.tsx';
import { useLeaveQuestion } from '../parts/leave-question.tsx';
import { Answer, ErrorNotice, Notice } from '../parts/notice.tsx';
import { makeVisible } from '../parts/text.tsx';
import { useWorkspaceNames } from '../parts/use-workspaces.ts';
import { previewDraft } from './draft.ts';
import { Block, type Effective, explainOutcome, OutcomeBadge } from './effective.tsx';
import type { Draft } from './judge-policies.ts';
import { describeScope, type Policy, readScope, writeScope } from './scope.ts';
import { ScopeFields } from './scope-fields.tsx';

interface PolicyEditorProps {
  /** The policy to edit; undefined for a new one. */
  readonly of?: Policy;
  readonly policies: Loaded<AnswerOf<'GET /api/v1/policies'>>;
  readonly onDone: (result: string) => void;
  readonly onClose: () => void;
}

const maxText = 16_384;
/** From about this length on, the gateway shortens what the model gets. */
const maxBlock = 12_000;

/** Adds or edits a policy, beside the text that the model would get with it. */
export function PolicyEditor({ of, policies, onDone, onClose }: PolicyEditorProps) {
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
  const error = useSignal<Error | undefined>(undefined);
  const isFixed = of !== undefined;
  const scope = writeScope(kind.value, scopeName.value.trim());
  const existing = isFixed
    ? undefined
    : policies.answer.value?.policies.find((each) => each.scope === scope && each.name === name.value.trim());
  const isComplete =
    name.value.trim() !== '' && text.value.trim() !== '' && (kind.value === 'org' || scopeName.value.trim() !== '');
  const draft: Draft = {
    scope,
    name: name.value.trim(),
    mode: mode.value === 'append' ? 'append' : 'prepend',
    text: text.value,
    order: Number(order.value),
    locked: isLocked.value,
    enabled: isEnabled.value,
  };
  const isChanged = of === undefined ? name.value + text.value !== '' : isDifferent(draft, of);
  const { leave, question } = useLeaveQuestion(isChanged && !isBusy.value, onClose);
  const canSave = isComplete && existing?.declared !== true;
  const save = async () => {
    if (!canSave || isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await request('POST /api/v1/policies', { body: draft });
      onClose();
      onDone(
        `The policy ${draft.name} of ${describeScope(scope)} is saved. Running sessions get the change with their next result.`,
      );
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={of === undefined ? 'Add policy' : `Edit policy ${of.name}`} onClose={leave} isWide>
      <form
        class="policies-editor"
        noValidate
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
          {question}
          <div class="dialog-actions">
            <Button onClick={leave}>Cancel</Button>
            <Button type="submit" kind="primary" disabled={!canSave} isBusy={isBusy.value}>
              Save policy
            </Button>
          </div>
        </div>
        <EditorPreview draft={draft} isDraft={isChanged && text.value.trim() !== ''} isNew={!isFixed} />
      </form>
    </Dialog>
  );
}

function isDifferent(draft: Draft, { declared, ...saved }: Policy): boolean {
  return (Object.keys(draft) as (keyof Draft)[]).some((key) => draft[key] !== saved[key]);
}

interface EditorPreviewProps {
  readonly draft: Draft;
  /** True if the form differs from what is saved. */
  readonly isDraft: boolean;
  readonly isNew: boolean;
}

/** What a chosen user would get with the draft, or what they get now while there is none. */
function EditorPreview({ draft, isDraft, isNew }: EditorPreviewProps) {
  const { kind, name } = readScope(draft.scope);
  const users = useRequest('GET /api/v1/users').answer.value?.users ?? [];
  const workspaces = useWorkspaceNames();
  const chosenUser = useSignal('');
  const chosenWorkspace = useSignal('');
  const member = users.find(({ teams }) => kind !== 'team' || teams.includes(name))?.name ?? '';
  const user = chosenUser.value.trim() || (kind === 'user' && name !== '' ? name : member);
  const workspace = chosenWorkspace.value.trim() || (kind === 'workspace' ? name : '');
  const query = { user, workspace: workspace === '' ? undefined : workspace };
  const effective = useRequest('GET /api/v1/policies/effective', { query }, { when: user !== '' });
  return (
    <section class="policies-editor-preview" aria-label="Preview">
      <h3>{isDraft ? 'What the model would get with this draft' : 'What the model gets now'}</h3>
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
          {(answer) =>
            isDraft || !isNew ? (
              <DraftText of={answer} draft={draft} isDraft={isDraft} />
            ) : (
              <Block text={answer.block} />
            )
          }
        </Answer>
      )}
    </section>
  );
}

/** The text with the draft, which is marked, and the outcome of the policy. */
function DraftText({
  of,
  draft,
  isDraft,
}: {
  readonly of: Effective;
  readonly draft: Draft;
  readonly isDraft: boolean;
}) {
  const { own, parts } = previewDraft(of, { ...draft, name: draft.name || 'NAME' });
  const where = `${makeVisible(of.userId)}${of.workspaceId === null ? '' : ` in ${makeVisible(of.workspaceId)}`}`;
  return (
    <>
      <p class="policies-name" role="status">
        {own === undefined ? (
          `The scope of this policy does not include ${where}.`
        ) : (
          <>
            This policy: <OutcomeBadge of={own} /> {makeVisible(explainOutcome({ ...own.policy, ...own }))}
          </>
        )}
      </p>
      {isDraft ? <Block text={parts.join('')} marked={parts} /> : <Block text={of.block} />}
      {isDraft && (
        <p class="field-hint">
          {parts[1] !== '' && 'The marked text is the draft. It is not saved yet.'}
          {parts.join('').length > maxBlock && ' The gateway leaves out the end of a text that is so long.'}
        </p>
      )}
    </>
  );
}
