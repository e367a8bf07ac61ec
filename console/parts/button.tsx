import type { ComponentChildren } from 'preact';
import { makeVisible } from './text.tsx';
import './button.css';

interface ButtonProps {
  readonly children: ComponentChildren;
  readonly onClick?: () => void;
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  readonly type?: 'button' | 'submit';
  readonly disabled?: boolean;
  readonly isBusy?: boolean;
  readonly label?: string;
  readonly isPressed?: boolean;
  /** True if a dialog gives it the focus when it opens. */
  readonly isFirst?: boolean;
}

export function Button({
  children,
  onClick,
  kind = 'plain',
  type = 'button',
  disabled,
  isBusy,
  label,
  isPressed,
  isFirst,
}: ButtonProps) {
  return (
    <button
      type={type}
      class={`button button-${kind}`}
      disabled={disabled === true || isBusy === true}
      aria-busy={isBusy === true ? 'true' : undefined}
      aria-label={label === undefined ? undefined : makeVisible(label)}
      aria-pressed={isPressed}
      data-begin={isFirst === true ? '' : undefined}
      onClick={onClick}
    >
      {isBusy === true && <span class="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
}

interface ActionsProps {
  readonly children: ComponentChildren;
  /** True in a row of a table: smaller, and in one line where there is space. */
  readonly isRow?: boolean;
}

/** A row of buttons. */
export function Actions({ children, isRow }: ActionsProps) {
  return <div class={isRow === true ? 'actions actions-row' : 'actions'}>{children}</div>;
}
