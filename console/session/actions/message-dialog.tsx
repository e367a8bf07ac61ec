import { useSignal } from '@preact/signals';
import { request } from '../../api/request.ts';
import { ActionDialog } from '../../parts/dialog.tsx';

interface MessageDialogProps {
  readonly id: string;
  readonly name: string;
  readonly onClose: () => void;
  readonly onDone: () => Promise<void>;
}

const maxLength = 60_000;

/** Writes a message of the operator into the inbox of a session. */
export function MessageDialog({ id, name, onClose, onDone }: MessageDialogProps) {
  const text = useSignal('');
  return (
    <ActionDialog
      title="Message to the session"
      action={`Send to ${name}`}
      canRun={text.value.trim() !== ''}
      onClose={onClose}
      onRun={async () => {
        await request('POST /api/v1/sessions/{id}/messages', { id, body: { text: text.value } });
        await onDone();
      }}
    >
      <p>The agent gets the text when it reads its inbox with the tool session_inbox. You are named as the operator.</p>
      <label class="field">
        <span>Text</span>
        <textarea
          value={text.value}
          maxLength={maxLength}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
          }}
        />
      </label>
    </ActionDialog>
  );
}
