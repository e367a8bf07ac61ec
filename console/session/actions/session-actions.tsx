import { useSignal } from '@preact/signals';
import { request } from '../../api/request.ts';
import { Actions, Button } from '../../parts/button.tsx';
import { ActionDialog } from '../../parts/dialog.tsx';
import { Notice } from '../../parts/notice.tsx';
import { isAdmin } from '../../sign-in/signed-in.ts';
import type { SessionDetails } from '../session-view.tsx';
import { MessageDialog } from './message-dialog.tsx';
import { RestrictDialog } from './restrict-dialog.tsx';

export interface SessionActionsProps {
  readonly details: SessionDetails;
  readonly onChange: () => Promise<void>;
  readonly onEnd: () => Promise<void>;
}

/** What an admin can do with a live session. */
export function SessionActions({ details, onChange, onEnd }: SessionActionsProps) {
  const open = useSignal<'message' | 'restrict' | 'end' | undefined>(undefined);
  const done = useSignal('');
  if (!isAdmin.value) return <span class="muted">Viewers cannot change sessions.</span>;
  const { id, children } = details;
  const name = details.name ?? id;
  const close = () => {
    open.value = undefined;
  };
  const show = (which: typeof open.value) => () => {
    done.value = '';
    open.value = which;
  };
  return (
    <>
      {done.value !== '' && <Notice tone="good">{done.value}</Notice>}
      <Actions>
        <Button onClick={show('message')}>Message…</Button>
        <Button onClick={show('restrict')}>Restrict…</Button>
        <Button kind="danger" onClick={show('end')}>
          End…
        </Button>
      </Actions>
      {open.value === 'message' && (
        <MessageDialog
          id={id}
          name={name}
          onClose={close}
          onDone={async () => {
            await onChange();
            done.value = 'The message is in the inbox of the session.';
          }}
        />
      )}
      {open.value === 'restrict' && (
        <RestrictDialog
          details={details}
          onClose={close}
          onDone={async () => {
            await onChange();
            done.value = 'The session is restricted.';
          }}
        />
      )}
      {open.value === 'end' && (
        <ActionDialog
          title="End the session"
          name={name}
          action={`End ${name}`}
          isDanger
          onClose={close}
          onRun={async () => {
            await request('DELETE /api/v1/sessions/{id}', { id });
            await onEnd();
          }}
        >
          <p>
            Its calls are refused from now on, and its processes end.
            {children > 0 && ` Its ${children === 1 ? 'child session ends' : `${children} child sessions end`} too.`}{' '}
            This cannot be undone.
          </p>
        </ActionDialog>
      )}
    </>
  );
}
