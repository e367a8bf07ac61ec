import { request } from '../../api/request.ts';
import { useRequest } from '../../api/use-request.ts';
import { ActionDialog } from '../../parts/dialog.tsx';
import type { SessionActionsProps } from './session-actions.tsx';

type EndDialogProps = Pick<SessionActionsProps, 'details' | 'isEnding' | 'onEnd'> & { readonly onClose: () => void };

/** Ends a session, after it has said what happens to its children and to its files. */
export function EndDialog({ details, isEnding, onClose, onEnd }: EndDialogProps) {
  const { id, children, workspaceId } = details;
  const name = details.name ?? id;
  return (
    <ActionDialog
      title="End the session"
      name={name}
      action={`End ${name}`}
      isDanger
      onClose={onClose}
      onRun={async () => {
        isEnding.value = true;
        try {
          await request('DELETE /api/v1/sessions/{id}', { id });
          await onEnd();
        } finally {
          isEnding.value = false;
        }
      }}
    >
      <p>
        Its calls are refused from now on, and its processes end.
        {children > 0 && ` Its ${children === 1 ? 'child session ends' : `${children} child sessions end`} too.`} This
        cannot be undone.
      </p>
      {workspaceId !== null && <FolderAtEnd id={id} workspaceId={workspaceId} />}
    </ActionDialog>
  );
}

/** What happens to the files. The API does not tell the setting `onEnd` of the workspace. */
function FolderAtEnd({ id, workspaceId }: { readonly id: string; readonly workspaceId: string }) {
  const workspace = useRequest('GET /api/v1/workspaces/{id}', { id: workspaceId }).answer.value;
  if (workspace === undefined) return null;
  // A folder may be older than the present isolation of the workspace.
  const hasOwn = workspace.isolation !== 'shared' || workspace.folders.some(({ sessionId }) => sessionId === id);
  return (
    <p>
      {hasOwn
        ? 'Changes in its own folder that are not merged are kept for review, unless the workspace has the setting "onEnd: remove".'
        : 'It works in the folder of the workspace itself, and the files there stay as they are.'}
    </p>
  );
}
