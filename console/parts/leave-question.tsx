import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { Notice } from './notice.tsx';

interface LeaveQuestion {
  /** Closes the dialog, or asks first. Asked again, it takes the question back. */
  readonly leave: () => void;
  /** The question, while it is open. */
  readonly question: ComponentChildren;
}

/** Asks before a dialog throws away what the reader has entered. */
export function useLeaveQuestion(isChanged: boolean, onClose: () => void): LeaveQuestion {
  const isAsking = useSignal(false);
  const leave = () => {
    if (isChanged) isAsking.value = !isAsking.value;
    else onClose();
  };
  return { leave, question: isAsking.value ? <Question onKeep={leave} onLeave={onClose} /> : null };
}

function Question({ onKeep, onLeave }: { readonly onKeep: () => void; readonly onLeave: () => void }) {
  const buttons = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    buttons.current?.querySelector('button')?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <Notice tone="warn">
      <p>What you have entered is not saved.</p>
      <div class="actions" ref={buttons}>
        <Button onClick={onKeep}>Continue editing</Button>
        <Button kind="danger" onClick={onLeave}>
          Throw it away
        </Button>
      </div>
    </Notice>
  );
}
