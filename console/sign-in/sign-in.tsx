import { batch, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { RequestError } from '../api/request.ts';
import { Button } from '../parts/button.tsx';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { CopyButton } from '../parts/same-data.tsx';
import { leave, signIn } from './exchange.ts';
import { givenCode } from './given-code.ts';
import { signOutReason } from './signed-in.ts';
import './sign-in.css';

const openCommand = 'ambit open';
/** The answers to what is no code and no credential: unknown, malformed, too long. */
const refusals: ReadonlySet<number> = new Set([400, 401, 413, 431]);

/** The first page: it holds no data, and offers the ways to sign in. */
export function SignIn() {
  const error = useSignal<Error | undefined>(undefined);
  const isBusy = useSignal(false);
  const run = async (body: { code?: string }, credential?: string) => {
    isBusy.value = true;
    error.value = undefined;
    try {
      await signIn(body, credential);
    } catch (failure) {
      const isRefused = failure instanceof RequestError && refusals.has(failure.status);
      error.value = isRefused ? explainRefusal(body) : (failure as Error);
    } finally {
      isBusy.value = false;
    }
  };
  useEffect(() => {
    document.title = 'Sign in · Ambit';
  }, []);
  useSignalEffect(() => {
    const code = givenCode.value;
    if (code === undefined) return;
    // The link replaces the sign-in that this tab had.
    batch(() => {
      leave();
      givenCode.value = undefined;
    });
    void run({ code });
  });
  return (
    <main class="sign-in">
      <div class="sign-in-card">
        <h1>
          <img src="./favicon.svg" alt="" width="32" height="32" /> Ambit
        </h1>
        {signOutReason.value !== '' && <Notice tone="warn">{signOutReason.value}</Notice>}
        {error.value !== undefined && <ErrorNotice error={error.value} />}
        <p>Run this command on the machine of the gateway. It opens a link that signs you in:</p>
        <div class="sign-in-command">
          <code>{openCommand}</code>
          <CopyButton text={openCommand} />
        </div>
        <p class="muted">The link works once, for 60 seconds.</p>
        <hr />
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const field = event.currentTarget.elements.namedItem('token') as HTMLInputElement;
            const token = field.value.trim();
            field.value = '';
            // A browser sends no other characters in a header, and would name them in its error.
            if (/^[\x21-\x7e]+$/.test(token)) void run({}, token);
            else error.value = explainRefusal({});
          }}
        >
          <label class="field">
            <span>Or paste the admin token, or an access token of your identity provider</span>
            <input name="token" type="password" autocomplete="off" spellcheck={false} required />
            <span class="field-hint">The admin token is in the file admin-token in the data directory.</span>
          </label>
          <Button type="submit" kind="primary" isBusy={isBusy.value}>
            Sign in
          </Button>
        </form>
      </div>
    </main>
  );
}

function explainRefusal({ code }: { readonly code?: string }): Error {
  const [detail, hint] =
    code === undefined
      ? [
          'This token does not sign you in.',
          'Paste the whole token. An access token needs the admin or the viewer role.',
        ]
      : ['The link has expired or was used already.', `Run "${openCommand}" to get a new one.`];
  return new RequestError(401, { detail, hint });
}
