import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

type Render = (close: () => void) => ComponentChildren;

/** Shows one dialog at a time. The view renders `element` at its end. */
export interface DialogHost {
  open(render: Render): void;
  readonly element: ComponentChildren;
}

export function useDialog(): DialogHost {
  const shown = useSignal<Render | undefined>(undefined);
  const close = () => {
    shown.value = undefined;
  };
  return {
    open(render) {
      shown.value = render;
    },
    element: shown.value?.(close),
  };
}
