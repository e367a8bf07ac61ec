import { type Signal, useSignal } from '@preact/signals';
import { Actions, Button } from '../../parts/button.tsx';
import { showResult } from '../../parts/result.tsx';
import { isAdmin } from '../../sign-in/signed-in.ts';
import type { SessionDetails } from '../session-view.tsx';
import { EndDialog } from './end-dialog.tsx';
import { MessageDialog } from './message-dialog.tsx';
import { RestrictDialog } from './restrict-dialog.tsx';

export interface SessionActionsProps {
  readonly details: SessionDetails;
  /** True while this page ends the session. */
  readonly isEnding: Signal<boolean>;
  readonly onChange: () => Promise<void>;
  readonly onEnd: () => Promise<void>;
}

/** What an admin can do with a live session. */
export function SessionActions({ details, isEnding, onChange, onEnd }: SessionActionsProps) {
  const open = useSignal<'message' | 'restrict' | 'end' | undefined>(undefined);
  if (!isAdmin.value) return <span class="muted">Viewers cannot change sessions.</span>;
  const { id } = details;
  const name = details.name ?? id;
  const close = () => {
    open.value = undefined;
  };
  const show = (which: typeof open.value) => () => {
    open.value = which;
  };
  return (
    <>
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
            showResult('The message is in the inbox of the session.');
          }}
        />
      )}
      {open.value === 'restrict' && (
        <RestrictDialog
          details={details}
          onClose={close}
          onDone={async () => {
            await onChange();
            showResult('The session is restricted. The timeline says what it has now.');
          }}
        />
      )}
      {open.value === 'end' && <EndDialog details={details} isEnding={isEnding} onClose={close} onEnd={onEnd} />}
    </>
  );
}
