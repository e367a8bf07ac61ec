import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { Button } from '../parts/button.tsx';
import { Facts } from '../parts/card.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Notice } from '../parts/notice.tsx';
import { Until } from '../parts/text.tsx';
import { describeCeiling, type Key } from './lists.ts';

interface SecretDialogProps {
  readonly title: string;
  readonly of: Key;
  readonly secret: string;
  readonly onClose: () => void;
}

/**
 * Shows a new key. It is kept only in this dialog and is gone when the dialog closes, so a reader who has not copied it
 * must say that it is stored.
 */
export function SecretDialog({ title, of, secret, onClose }: SecretDialogProps) {
  const field = useRef<HTMLInputElement>(null);
  const copied = useSignal('');
  const isCopied = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      copied.value = 'The key is in the clipboard.';
      isCopied.value = true;
    } catch {
      field.current?.select();
      copied.value = 'The browser does not allow copying. The key is selected: copy it with the keyboard.';
    }
  };
  const leave = () => {
    if (isCopied.value) onClose();
    else copied.value = 'Copy the key first. If you have stored it already, say so with the button below.';
  };
  return (
    <Dialog title={title} onClose={leave} canClose={isCopied.value}>
      <div class="dialog-body">
        <Notice tone="warn">
          This is the only time that the key is shown. Copy it now. Ambit keeps only a hash of it.
        </Notice>
        <div class="people-secret">
          <input
            ref={field}
            class="mono"
            readOnly
            value={secret}
            aria-label="API key"
            autocomplete="off"
            spellcheck={false}
            onFocus={({ currentTarget }) => currentTarget.select()}
            onCopy={() => {
              isCopied.value = true;
            }}
          />
          <Button kind="primary" isFirst onClick={() => void copy()}>
            Copy key
          </Button>
        </div>
        <p class="field-hint" role="status">
          {copied.value}
        </p>
        <Facts
          rows={[
            ['Id', <code key="id">{of.id}</code>],
            ['User', of.userId],
            ['Limits', describeCeiling(of)],
            ['Expires', of.expiresAt === null ? 'never' : <Until key="until" at={of.expiresAt} />],
            ...(of.previousUntil === null
              ? []
              : [['Old secret ends', <Until key="previous" at={of.previousUntil} />] as const]),
          ]}
        />
        <p class="field-hint">
          Clients send the key in the header <code>Authorization: Bearer KEY</code>.
        </p>
        <div class="dialog-actions">
          <Button onClick={onClose}>I have stored the key</Button>
        </div>
      </div>
    </Dialog>
  );
}
