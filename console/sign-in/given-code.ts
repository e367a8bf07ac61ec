import { signal } from '@preact/signals';

/** The code of the sign-in link that was opened in this tab last. It waits here until it is exchanged. */
export const givenCode = signal(takeCode());

addEventListener('hashchange', () => {
  givenCode.value = takeCode() ?? givenCode.peek();
});

/** Takes the code out of the address before anything else reads it, so that neither a view nor the history gets it. */
function takeCode(): string | undefined {
  if (!location.hash.startsWith('#code=')) return undefined;
  const code = location.hash.slice('#code='.length);
  history.replaceState(null, '', '#/overview');
  return code;
}
