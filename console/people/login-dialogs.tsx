import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type AnswerOf, request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { Button } from '../parts/button.tsx';
import { Facts } from '../parts/card.tsx';
import { ActionDialog, Dialog } from '../parts/dialog.tsx';
import { TextField } from '../parts/fields.tsx';
import { ErrorNotice, Notice } from '../parts/notice.tsx';
import { CopyButton } from '../parts/same-data.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { type Login, listUserNames, type PeopleLists } from './lists.ts';
import type { PeopleDialogProps } from './user-dialogs.tsx';

type StartedLogin = AnswerOf<'POST /api/v1/logins'>;

interface Begun extends StartedLogin {
  readonly userId: string;
  readonly server: string;
  /** The time of the login that this one replaces. */
  readonly previousAt: string | undefined;
}

/** Starts a login and shows the address at which the user continues. */
export function StartLogin({ lists, userId = '', of, onDone, onClose }: PeopleDialogProps & { readonly of?: Login }) {
  const user = useSignal(of?.userId ?? userId);
  const server = useSignal(of?.server ?? '');
  const begun = useSignal<Begun | undefined>(undefined);
  const servers = useRequest('GET /api/v1/servers').answer.value?.servers ?? [];
  if (begun.value !== undefined) {
    return <ContinueLogin begun={begun.value} lists={lists} onDone={onDone} onClose={onClose} />;
  }
  const which = { userId: user.value.trim(), server: server.value.trim() };
  const start = async () => {
    const started = await request('POST /api/v1/logins', { body: which });
    begun.value = { ...started, ...which, previousAt: findLogin(lists, which)?.madeAt };
  };
  return (
    <ActionDialog
      title="Start login"
      action="Start login"
      canRun={which.userId !== '' && which.server !== ''}
      onRun={start}
      onClose={() => {
        if (begun.peek() === undefined) onClose();
      }}
    >
      <p>The user logs in at the server with OAuth. Ambit keeps the token encrypted and never shows it.</p>
      <TextField label="User" value={user} isRequired isFixed={of !== undefined} known={listUserNames(lists)} />
      <TextField
        label="Server"
        value={server}
        isRequired
        isFixed={of !== undefined}
        known={servers.filter(({ transport }) => transport !== 'stdio').map(({ name }) => name)}
        hint="Only servers over HTTP have logins."
      />
    </ActionDialog>
  );
}

function findLogin({ logins }: PeopleLists, which: { readonly userId: string; readonly server: string }) {
  return logins.answer.peek()?.logins.find(({ userId, server }) => userId === which.userId && server === which.server);
}

const everyMs = 2000;

/** Waits for the user to log in. It closes when the login is there. */
function ContinueLogin({ begun, lists, onDone, onClose }: PeopleDialogProps & { readonly begun: Begun }) {
  const { authorizationUrl, redirectUri, userId, server, previousAt } = begun;
  const callback = useSignal('');
  const isBusy = useSignal(false);
  const error = useSignal<Error | undefined>(undefined);
  const login = findLogin(lists, begun);
  const isThere = login?.state === 'active' && login.madeAt !== previousAt;
  const finish = () => {
    onClose();
    onDone(`${userId} is logged in at ${server}.`);
  };
  useEffect(() => {
    const timer = setInterval(() => void lists.logins.reload(), everyMs);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (isThere) finish();
  }, [isThere]);
  const complete = async () => {
    isBusy.value = true;
    error.value = undefined;
    try {
      await request('POST /api/v1/logins/complete', { body: { userId, server, callback: callback.value.trim() } });
      finish();
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      isBusy.value = false;
    }
  };
  const link = readWebAddress(authorizationUrl);
  return (
    <Dialog title="Continue the login" onClose={onClose}>
      <div class="dialog-body">
        <Facts
          rows={[
            ['User', <Text key="user" value={userId} />],
            ['Server', <Text key="server" value={server} />],
            ['Logs in at', <strong key="host">{link === undefined ? 'unknown' : makeVisible(link.host)}</strong>],
          ]}
        />
        {link === undefined ? (
          <Notice tone="bad">
            The address of the authorization server is not a web address. Do not open it:{' '}
            <Text value={authorizationUrl} />
          </Notice>
        ) : (
          <div class="people-login">
            <a href={link.href} target="_blank" rel="noopener noreferrer" class="mono">
              <Text value={authorizationUrl} max={2000} />
            </a>
            <CopyButton text={authorizationUrl} what="the address" />
          </div>
        )}
        <p class="field-hint" role="status">
          Open this address in the browser of the user. Ambit waits for the login and closes this dialog when it is
          done.
        </p>
        <details>
          <summary>The browser cannot return to the gateway</summary>
          <form
            class="people-callback"
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              void complete();
            }}
          >
            <TextField
              label="Address that the browser was sent to"
              type="url"
              value={callback}
              isRequired
              hint={`It begins with ${makeVisible(redirectUri)}. Copy it from the address bar.`}
            />
            <Button type="submit" isBusy={isBusy.value} disabled={callback.value.trim() === ''}>
              Complete login
            </Button>
          </form>
        </details>
        {error.value !== undefined && <ErrorNotice error={error.value} />}
        <div class="dialog-actions">
          <Button onClick={onClose}>Close</Button>
        </div>
      </div>
    </Dialog>
  );
}

/** Reads an address that comes from an authorization server. Only a web address may become a link. */
function readWebAddress(text: string): URL | undefined {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'https:' || url.protocol === 'http:') ? url : undefined;
}

type RemoveLoginProps = Pick<PeopleDialogProps, 'onDone' | 'onClose'> & { readonly of: Login };

export function RemoveLogin({ of: { userId, server }, onDone, onClose }: RemoveLoginProps) {
  const remove = async () => {
    const { removed } = await request('DELETE /api/v1/logins', { body: { userId, server } });
    onDone(
      removed
        ? `The login of ${userId} at ${server} is removed.`
        : `The login of ${userId} at ${server} had been removed already.`,
    );
  };
  return (
    <ActionDialog title="Remove login" action="Remove login" name={server} isDanger onRun={remove} onClose={onClose}>
      <p>
        The login of <Text value={userId} /> at <Text value={server} /> is deleted and revoked at the authorization
        server.
      </p>
      <Notice tone="warn">
        Connections that use it end. Calls of the user to this server fail until the next login.
      </Notice>
    </ActionDialog>
  );
}
