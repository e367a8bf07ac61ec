import { computed, signal } from '@preact/signals';

/** The sign-in of this tab. */
export interface SignedIn {
  readonly token: string;
  readonly role: 'admin' | 'viewer';
  readonly by: string;
  readonly expiresAt: string;
}

const storageKey = 'ambit-console';

/** The sign-in, kept in this tab only: another tab or another port of this host does not get it. */
export const signedIn = signal<SignedIn | undefined>(readStored());
/** The reason why the sign-in page is shown, if it is not the first visit. */
export const signOutReason = signal('');
export const isAdmin = computed(() => signedIn.value?.role === 'admin');

const ways: ReadonlyMap<string, string> = new Map([
  ['control-socket', 'with a link from this machine'],
  ['admin-token', 'with the admin token'],
]);

/** Says how somebody has signed in, from the credential that the gateway names. */
export function nameSignIn(by: string): string {
  return ways.get(by) ?? `as ${by}`;
}

export function keepSignIn(fresh: SignedIn): void {
  sessionStorage.setItem(storageKey, JSON.stringify(fresh));
  signOutReason.value = '';
  signedIn.value = fresh;
}

export function signOut(reason = ''): void {
  sessionStorage.removeItem(storageKey);
  signOutReason.value = reason;
  signedIn.value = undefined;
}

function readStored(): SignedIn | undefined {
  try {
    const stored = JSON.parse(sessionStorage.getItem(storageKey) ?? 'null') as SignedIn | null;
    return stored !== null && Date.parse(stored.expiresAt) > Date.now() ? stored : undefined;
  } catch {
    return undefined;
  }
}
