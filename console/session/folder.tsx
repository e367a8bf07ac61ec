import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { pathOf, RequestError, request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { Badge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { ActionDialog } from '../parts/dialog.tsx';
import { Diff, isShownWhole } from '../parts/diff.tsx';
import { plural } from '../parts/format.ts';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import './session.css';

const maxFiles = 200;

interface FolderProps {
  readonly id: string;
  readonly name: string;
  readonly isLive: boolean;
  /** The folder is read again when this value changes. */
  readonly after?: unknown;
  /** Called after a merge or a discard. */
  readonly onChange?: () => void;
}

/** The own folder of a session, if it has one. Most sessions work in the folder of their workspace. */
export function SessionFolder(props: FolderProps & { readonly workspaceId: string | null }) {
  const { workspaceId, ...folder } = props;
  const { after } = folder;
  const isAsked = workspaceId !== null && isAdmin.value;
  const workspace = useRequest('GET /api/v1/workspaces/{id}', { id: workspaceId ?? '' }, { when: isAsked, after });
  const hasOwn = workspace.answer.value?.folders.some(({ sessionId }) => sessionId === folder.id) === true;
  return hasOwn && workspaceId !== null ? <OwnFolder {...folder} workspaceId={workspaceId} /> : null;
}

/** The unmerged changes in the own folder of a session, and what can be done with them. */
function OwnFolder(props: FolderProps & { readonly workspaceId: string }) {
  const { id, name, isLive, workspaceId, after, onChange } = props;
  // A session that moved between workspaces has a folder in each.
  const which = { id, query: { workspace: workspaceId } };
  const diff = useRequest('GET /api/v1/sessions/{id}/diff', which, { after });
  const open = useSignal<'merge' | 'discard' | undefined>(undefined);
  const done = useSignal('');
  const isStale = useSignal(false);
  const failure = diff.error.value;
  const isGone = useSignal(false);
  const folder = diff.answer.value;
  const close = () => {
    open.value = undefined;
  };
  const finish = async (text: string) => {
    onChange?.();
    await diff.reload();
    // A kept folder may be deleted once nothing is left to merge.
    isGone.value = !isLive && diff.error.peek() !== undefined;
    done.value = text;
  };
  const showAgain = async () => {
    close();
    done.value = '';
    await diff.reload();
    isStale.value = true;
  };
  return (
    <Card
      title="Changes in its folder"
      aside={folder === undefined ? undefined : `${plural(folder.files.length, 'file')}, ${folder.isolation}`}
    >
      {done.value !== '' && <Notice tone="good">{done.value}</Notice>}
      {isStale.value && (
        <Notice tone="warn">
          The session has changed files since you looked, so nothing was merged. These are the new changes.
        </Notice>
      )}
      {failure !== undefined && !isGone.value && <ErrorNotice error={failure} onRetry={() => void diff.reload()} />}
      {folder !== undefined && !isGone.value && (
        <>
          <p class="session-small">
            <Text value={folder.path} />{' '}
            {folder.branch !== null && (
              <>
                on branch <Text value={folder.branch} />
              </>
            )}
          </p>
          {folder.files.length === 0 ? (
            <p class="muted">There are no changes that are not merged yet.</p>
          ) : (
            <>
              <ul class="session-list">
                {folder.files.slice(0, maxFiles).map(({ path, status, added, removed }) => (
                  <li key={path}>
                    <span class="session-line">
                      <Badge tone={status === 'deleted' ? 'bad' : status === 'added' ? 'good' : 'info'}>{status}</Badge>
                      <Text value={path} />
                      {added !== null && removed !== null && (
                        <span class="session-small">
                          +{added} −{removed}
                        </span>
                      )}
                    </span>
                  </li>
                ))}
              </ul>
              {folder.files.length > maxFiles && (
                <p class="muted">{plural(folder.files.length - maxFiles, 'further file')} not named here.</p>
              )}
              <Diff patch={folder.patch} />
              {folder.shortened && <p class="muted">The rest of the changes is not shown.</p>}
            </>
          )}
          {folder.unnamed > 0 && (
            <Notice tone="warn">
              {plural(folder.unnamed, 'name')} in this folder cannot be shown, because they are not UTF-8. Those files
              are not merged, and are lost if you discard the folder.
            </Notice>
          )}
          <Actions>
            <Button
              kind="primary"
              disabled={folder.files.length === 0}
              onClick={() => {
                isStale.value = false;
                open.value = 'merge';
              }}
            >
              Merge into the workspace…
            </Button>
            {!isLive && (
              <Button
                kind="danger"
                onClick={() => {
                  open.value = 'discard';
                }}
              >
                Discard the folder…
              </Button>
            )}
          </Actions>
          <SameData
            what="these changes"
            command={`ambit session diff ${quoteWord(id)} --workspace ${quoteWord(workspaceId)} --json`}
            path={pathOf('GET /api/v1/sessions/{id}/diff', which)}
          />
        </>
      )}
      {open.value === 'merge' && folder !== undefined && (
        <MergeDialog
          isShown={!folder.shortened && isShownWhole(folder.patch)}
          id={id}
          name={name}
          workspaceId={workspaceId}
          changesHash={folder.changesHash}
          onClose={close}
          onDone={finish}
          onStale={showAgain}
        />
      )}
      {open.value === 'discard' && (
        <ActionDialog
          title="Discard the folder"
          name={name}
          action={`Discard the folder of session ${name}`}
          isDanger
          onClose={close}
          onRun={async () => {
            await request('DELETE /api/v1/sessions/{id}/folder', which);
            onChange?.();
            isGone.value = true;
            done.value = 'The folder was discarded.';
          }}
        >
          <p>All changes above are lost. They cannot be restored.</p>
        </ActionDialog>
      )}
    </Card>
  );
}

interface DialogProps extends Pick<FolderProps, 'id' | 'name'> {
  readonly workspaceId: string;
  /** False if some of the changes were too long to be shown at once. */
  readonly isShown: boolean;
  /** Names the changes that are shown. */
  readonly changesHash: string;
  /** Called when these are not the changes of the session any more. */
  readonly onStale: () => Promise<void>;
  readonly onClose: () => void;
  readonly onDone: (text: string) => Promise<void>;
}

/** Merges after a look at what would happen to each file: exactly the changes that were shown when it opened. */
function MergeDialog({ id, name, workspaceId, isShown, changesHash, onClose, onDone, onStale }: DialogProps) {
  const prefer = useSignal<Preference>('');
  // What is shown behind the dialog may be renewed, and then nobody has seen it.
  const seen = useRef(changesHash).current;
  const plan = useMergePlan(id, mergeBody(workspaceId, prefer.value, seen), onStale);
  const files = plan.files.value;
  return (
    <ActionDialog
      title="Merge into the workspace"
      name={name}
      action={`Merge the changes of ${name}`}
      isWide
      canRun={plan.fits.value}
      onClose={onClose}
      onRun={async () => {
        const body = mergeBody(workspaceId, prefer.value, seen);
        const merged = await request('POST /api/v1/sessions/{id}/merge', { id, body }).catch((failure) => {
          if (!isStaleAnswer(failure)) throw failure;
        });
        if (merged === undefined) return onStale();
        await onDone(describeMerge(merged.files, merged.workspaceId));
      }}
    >
      <label class="field">
        <span>If both sides changed a file</span>
        <select
          value={prefer.value}
          onChange={({ currentTarget }) => {
            prefer.value = currentTarget.value as Preference;
          }}
        >
          <option value="">merge it, or refuse</option>
          <option value="session">take the version of the session</option>
          <option value="workspace">keep the version of the workspace</option>
        </select>
      </label>
      {!isShown && (
        <Notice tone="warn">
          The page has not shown all of these changes. This command shows them all: ambit session diff {quoteWord(id)}
        </Notice>
      )}
      {plan.error.value !== undefined && <ErrorNotice error={plan.error.value} />}
      {files !== undefined && !plan.fits.value && (
        <Notice tone="warn">Some files conflict, so nothing would be merged. Choose above which version to use.</Notice>
      )}
      {files !== undefined && files.length > maxFiles && (
        <p>
          {describeOutcomes(files)} The list has the first {maxFiles}.
        </p>
      )}
      {files !== undefined && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls must be reachable by keyboard
        <ul class="session-list merge-files" aria-label="Files" tabIndex={0}>
          {sortProblemsFirst(files).map(({ path, change, outcome, reason }) => (
            <li key={path}>
              <span class="session-line">
                <Badge tone={isProblem(outcome) ? 'bad' : 'good'}>{outcome}</Badge>
                {makeVisible(path)} <span class="muted">{change}</span>
              </span>
              {reason !== undefined && <span class="session-small">{makeVisible(reason)}</span>}
            </li>
          ))}
        </ul>
      )}
    </ActionDialog>
  );
}

const isProblem = (outcome: string) => outcome === 'conflict' || outcome === 'refused';

function sortProblemsFirst(files: readonly MergedFile[]): readonly MergedFile[] {
  const order = [true, false].flatMap((wanted) => files.filter(({ outcome }) => isProblem(outcome) === wanted));
  return order.slice(0, maxFiles);
}

function describeOutcomes(files: readonly MergedFile[]): string {
  const outcomes = [...new Set(files.map(({ outcome }) => outcome))];
  const counts = outcomes.map((each) => `${files.filter(({ outcome }) => outcome === each).length} ${each}`);
  return `${plural(files.length, 'file')}: ${counts.join(', ')}.`;
}

/** Tells how many files the workspace has got, and how many it has not. */
function describeMerge(files: readonly MergedFile[], workspaceId: string): string {
  const count = (...wanted: string[]) => files.filter(({ outcome }) => wanted.includes(outcome)).length;
  const [refused, left] = [count('refused'), count('left')];
  return [
    `${plural(count('taken', 'merged', 'already'), 'file')} merged into workspace ${workspaceId}.`,
    ...(refused === 0 ? [] : [`${plural(refused, 'file')} refused: sessions may not write there.`]),
    ...(left === 0 ? [] : [`The workspace kept its version of ${plural(left, 'file')}.`]),
  ].join(' ');
}

type Preference = '' | 'session' | 'workspace';

function mergeBody(workspace: string, prefer: Preference, changesHash: string) {
  return { workspace, changesHash, ...(prefer === '' ? {} : { prefer }) };
}

function isStaleAnswer(failure: unknown): boolean {
  return failure instanceof RequestError && failure.code === 'FILE_CHANGED';
}

type MergedFile = { path: string; change: string; outcome: string; reason?: string | undefined };

/** Asks what a merge would do, without doing it. */
function useMergePlan(id: string, body: ReturnType<typeof mergeBody>, onStale: () => Promise<void>) {
  const files = useSignal<readonly MergedFile[] | undefined>(undefined);
  const fits = useSignal(false);
  const error = useSignal<Error | undefined>(undefined);
  useEffect(() => {
    let isCurrent = true;
    // The plan of another choice must not be confirmed.
    files.value = undefined;
    fits.value = false;
    error.value = undefined;
    void readPlan();
    return () => {
      isCurrent = false;
    };

    async function readPlan(): Promise<void> {
      try {
        const plan = await request('POST /api/v1/sessions/{id}/merge', { id, body: { ...body, dryRun: true } });
        if (!isCurrent) return;
        files.value = plan.files;
        fits.value = plan.fits;
      } catch (failure) {
        if (!isCurrent) return;
        if (isStaleAnswer(failure)) await onStale();
        else error.value = failure as Error;
      }
    }
  }, [id, JSON.stringify(body)]);
  return { files, fits, error };
}
