import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { RequestError, send } from '../api/request.ts';
import { hrefOf, replaceAddress } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { CopyButton } from '../parts/same-data.tsx';
import { keepSignIn, type SignedIn, signOutReason } from './signed-in.ts';
import './sign-in.css';

const openCommand = 'ambit open';

/** Takes the one-time code out of the address, so that it stays in no history. */
function takeCode(): string | undefined {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code !== undefined) replaceAddress(hrefOf(['overview']));
  return code;
}

/** Exchanges a code or a credential for the token of this console. */
async function openConsole(body: { code?: string }, credential?: string): Promise<void> {
  const opened = await send('/api/v1/consoles', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: {
      'content-type': 'application/json',
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
    },
  });
  keepSignIn((await opened.json()) as SignedIn);
  if (location.hash === '') replaceAddress(hrefOf(['overview']));
}

/** The first page: it holds no data, and offers the ways to sign in. */
export function SignIn() {
  const error = useSignal<Error | undefined>(undefined);
  const isBusy = useSignal(false);
  const run = async (body: { code?: string }, credential?: string) => {
    isBusy.value = true;
    error.value = undefined;
    try {
      await openConsole(body, credential);
    } catch (failure) {
      error.value =
        failure instanceof RequestError && failure.status === 401 ? explainRefusal(body) : (failure as Error);
    } finally {
      isBusy.value = false;
    }
  };
  useEffect(() => {
    document.title = 'Sign in · Ambit';
    const code = takeCode();
    if (code !== undefined) void run({ code });
    const onHash = () => {
      const later = takeCode();
      if (later !== undefined) void run({ code: later });
    };
    addEventListener('hashchange', onHash);
    return () => removeEventListener('hashchange', onHash);
  }, []);
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
            if (token !== '') void run({}, token);
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
