import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { ErrorNotice } from './notice.tsx';
import { hideResult } from './result.tsx';
import { makeVisible } from './text.tsx';
import './dialog.css';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly isWide?: boolean;
  /** False while the content would be lost: then there is no button to close it. `onClose` is asked all the same. */
  readonly canClose?: boolean;
}

/** A modal dialog. The browser keeps the focus inside. Afterwards the focus returns to the button that opened it. */
export function Dialog({ title, onClose, children, isWide, canClose = true }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  const isGone = useRef(false);
  const focused = useRef<HTMLElement>(undefined);
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    hideResult();
    dialog?.showModal();
    if (dialog !== null) findFirst(dialog)?.focus();
    return () => {
      isGone.current = true;
      // While it is open, nothing outside of it can have the focus.
      dialog?.close();
      returnFocus(opener);
    };
  }, []);
  /** A second Esc closes a dialog without asking. One that is still needed opens again, with the focus where it was. */
  const stayOpen = () => {
    const dialog = element.current;
    if (isGone.current || dialog === null || dialog.open) return;
    // The browser gives the focus to another element first.
    const place = focused.current;
    dialog.showModal();
    place?.focus();
    if (place === undefined || document.activeElement !== place) findFirst(dialog)?.focus();
  };
  return (
    <dialog
      ref={element}
      class={isWide === true ? 'dialog dialog-wide' : 'dialog'}
      aria-labelledby={id}
      onFocusIn={({ target }) => {
        if (target instanceof HTMLElement) focused.current = target;
      }}
      onClose={() => {
        // The event comes late, when another dialog may be open already.
        if (isGone.current) return;
        onClose();
        setTimeout(stayOpen);
      }}
      onCancel={(event) => {
        // A file field inside has an event of this name too.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id} tabIndex={-1}>
          {makeVisible(title)}
        </h2>
        {canClose && (
          <Button kind="quiet" label="Close" onClick={onClose}>
            ✕
          </Button>
        )}
      </header>
      {children}
    </dialog>
  );
}

const fields = 'input:not([readonly]), select, textarea';

/**
 * Finds the element with which the reader begins: the one that asks for it, the first field, or the button of a question.
 * A dialog that is only read begins with its heading, where Enter does nothing.
 */
function findFirst(dialog: HTMLElement): HTMLElement | undefined {
  const places = ['[data-begin]', fields, '.dialog-form .button-primary', '.dialog-form .dialog-actions .button', 'h2'];
  for (const place of places) {
    const found = [...dialog.querySelectorAll<HTMLElement>(place)].find(
      (each) => each.checkVisibility() && !each.matches(':disabled'),
    );
    if (found !== undefined) return found;
  }
  return undefined;
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
  /** True if the reader has to fill in fields before the confirmation. */
  readonly hasFields?: boolean;
  readonly children?: ComponentChildren;
  /** Does the work. The dialog shows progress until it resolves, and the error if it rejects. */
  readonly onRun: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Asks for a confirmation, shows progress until the work is done, and closes then. */
export function ActionDialog(props: ActionDialogProps) {
  const { title, name, action, isDanger, isWide, canRun = true, hasFields = false, children, onRun, onClose } = props;
  const typed = useSignal('');
  const isBusy = useSignal(false);
  const error = useSignal<Error | undefined>(undefined);
  const isConfirmed = name === undefined || typed.value.trim() === name;
  const begunAt = useRef<Element | null>(null);
  useEffect(() => {
    // The button lost the focus while it was busy.
    const { current } = begunAt;
    if (!isBusy.value && document.activeElement === document.body && current instanceof HTMLElement) current.focus();
  }, [isBusy.value]);
  const run = async () => {
    if (!isConfirmed || !canRun || isBusy.value) return;
    begunAt.current = document.activeElement;
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
        // The browser's own messages would cover the hints.
        noValidate
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
              data-begin={hasFields ? undefined : ''}
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
