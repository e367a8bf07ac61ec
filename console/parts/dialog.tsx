import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { ErrorNotice } from './notice.tsx';
import { makeVisible } from './text.tsx';
import './dialog.css';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly isWide?: boolean;
}

/** A modal dialog. The browser keeps the focus inside. Afterwards the focus returns to the button that opened it. */
export function Dialog({ title, onClose, children, isWide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isGone = useRef(false);
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      isGone.current = true;
      // While it is open, nothing outside of it can have the focus.
      dialog?.close();
      returnFocus(opener);
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={isWide === true ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={id}
      onClose={() => {
        // The event comes late, when another dialog may be open already.
        if (!isGone.current) onClose();
      }}
      onCancel={(event) => {
        // A file field inside has an event of this name too.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{makeVisible(title)}</h2>
        <Button kind="quiet" label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      {children}
    </dialog>
  );
}

/** Gives the focus to the first place that can have it. A menu that has closed hides the button that was in it. */
function returnFocus(opener: Element | null): void {
  for (const place of [opener, opener?.closest('details')?.querySelector('summary')]) {
    if (!(place instanceof HTMLElement) || place === document.body) continue;
    place.focus();
    if (document.activeElement === place) break;
  }
  // The button may be about to leave the page, as "End…" does with the session.
  requestAnimationFrame(() => {
    if (document.activeElement === document.body) document.querySelector<HTMLElement>('main h1')?.focus();
  });
}

interface ActionDialogProps {
  readonly title: string;
  /** The name of the thing that changes. The reader types it to confirm. */
  readonly name?: string | undefined;
  /** The text of the button, with the name of the thing: `End session task-49`. */
  readonly action: string;
  readonly isDanger?: boolean;
  readonly isWide?: boolean;
  readonly canRun?: boolean;
  readonly children?: ComponentChildren;
  /** Does the work. The dialog shows progress until it resolves, and the error if it rejects. */
  readonly onRun: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Asks for a confirmation, shows progress until the work is done, and closes then. */
export function ActionDialog(props: ActionDialogProps) {
  const { title, name, action, isDanger, isWide, canRun = true, children, onRun, onClose } = props;
  const typed = useSignal('');
  const isBusy = useSignal(false);
  const error = useSignal<Error | undefined>(undefined);
  const isConfirmed = name === undefined || typed.value.trim() === name;
  const run = async () => {
    if (!isConfirmed || !canRun || isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await onRun();
      onClose();
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={title} onClose={onClose} {...(isWide === undefined ? {} : { isWide })}>
      <form
        class="dialog-form"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {children}
        {name !== undefined && (
          <label class="field">
            <span>
              Type <strong>{makeVisible(name)}</strong> to confirm
            </span>
            <input
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              value={typed.value}
              onInput={(event) => {
                typed.value = event.currentTarget.value;
              }}
            />
          </label>
        )}
        {error.value !== undefined && <ErrorNotice error={error.value} />}
        <div class="dialog-actions">
          <Button onClick={onClose} disabled={isBusy.value}>
            Cancel
          </Button>
          <Button
            type="submit"
            kind={isDanger === true ? 'danger' : 'primary'}
            disabled={!isConfirmed || !canRun}
            isBusy={isBusy.value}
          >
            {makeVisible(action)}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
