import { effect, signal } from '@preact/signals';

const storageKey = 'ambit-theme';

/** The chosen theme; empty for that of the system. */
export const theme = signal(localStorage.getItem(storageKey) ?? '');

effect(() => {
  const { dataset } = document.documentElement;
  if (theme.value === '') delete dataset['theme'];
  else dataset['theme'] = theme.value;
});

export function chooseTheme(name: string): void {
  theme.value = name === 'light' || name === 'dark' ? name : '';
  localStorage.setItem(storageKey, theme.value);
}
