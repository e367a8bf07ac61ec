import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { HttpServer, ServerDefinition } from '../definition.ts';
import { requireServer } from './credential-admin.ts';
import { throwInvalid } from './credential-target.ts';
import type { LoginView } from './login.ts';
import { createClientDocument } from './login-flow.ts';
import { type LoginRedirect, type Logins, openLogins, type PendingLogin } from './logins.ts';
import { openSealingKeys } from './sealed-documents.ts';

type LoginOwner = Pick<LoginView, 'userId' | 'server'>;

/** The logins for an operator, who never sees a token. */
export interface LoginAdmin {
  /** Starts a login. `port` is where a command on this machine waits for the browser; without it the gateway does. */
  start(which: LoginOwner, port?: number, browser?: string): Promise<LoginRedirect>;
  /** Shows the login that `complete` would end, so that a person can be asked first. */
  preview(callback: string, browser?: string): Promise<PendingLogin>;
  /** Completes a login. `callback` is the address that the browser was sent back to. */
  complete(callback: string, which?: LoginOwner, browser?: string): Promise<LoginView>;
  /** False when there was none. */
  remove(which: LoginOwner): Promise<boolean>;
  list(): LoginView[];
  /** Reads the ticket of a login link; undefined when it has expired or is not ours. */
  readTicket(ticket: string): LoginOwner | undefined;
  /** The client metadata for the authorization server with that tag; undefined without a public address. */
  clientDocument(tag: string): Record<string, unknown> | undefined;
}

interface LoginAdminOptions {
  readonly logins: Logins | undefined;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  readonly publicUrl: () => string | undefined;
  readonly isApproved: (server: ServerDefinition) => boolean;
}

/** Opens the logins with the key that the configuration names. */
export function openConfiguredLogins(
  store: SessionStore,
  config: Config,
  dataDir: string,
  { journal, servers }: { readonly journal: Journal; readonly servers: LoginAdminOptions['servers'] },
): Promise<Logins> {
  const { keyFile } = config.credentials;
  return openLogins({
    store,
    keys: openSealingKeys({ dataDir, keyFile, env: process.env }),
    findServer(name) {
      const server = servers().get(name);
      return server?.kind === 'http' ? server : undefined;
    },
    onEvent: (event, { userId, server, issuer, why }) =>
      journal.record({ kind: 'gateway', event, userId, server, issuer, ...(why === undefined ? {} : { why }) }),
  });
}

export function createLoginAdmin({ logins, servers, publicUrl, isApproved }: LoginAdminOptions): LoginAdmin {
  function requireLogins(): Logins {
    if (logins === undefined)
      throw new AmbitError('GATEWAY_UNREACHABLE', { what: 'This gateway does not store logins.' });
    return logins;
  }

  function requireLoginServer({ userId, server: name }: LoginOwner): HttpServer {
    const server = requireServer(servers(), name);
    if (server.kind !== 'http')
      throwInvalid(`The server "${name}" is a local process; users can log in only to servers over HTTP.`);
    if (!isApproved(server)) throw new AmbitError('SERVER_NOT_APPROVED');
    if (userId === anonymousUser) throwInvalid('Anonymous callers cannot log in.');
    if (userId === '' || Buffer.byteLength(userId) > 512 || /\p{Surrogate}|\p{Cc}/u.test(userId)) {
      throwInvalid('That is not a valid user name.');
    }
    return server;
  }

  return {
    async start(which, port, browser) {
      const server = requireLoginServer(which);
      const url = publicUrl();
      if (port !== undefined) return requireLogins().start(which.userId, server, { loopbackPort: port }, browser);
      if (url === undefined) throwInvalid('There is no redirect address: set listen.publicUrl, or use "ambit login".');
      return requireLogins().start(which.userId, server, { publicUrl: url }, browser);
    },
    preview: (callback, browser) => requireLogins().preview(callback, browser === undefined ? {} : { browser }),
    complete: (callback, which, browser) =>
      requireLogins().complete(callback, { ...which, ...(browser === undefined ? {} : { browser }) }),
    remove: ({ userId, server }) => requireLogins().remove(userId, server),
    list: () => requireLogins().list(),
    readTicket: (ticket) => logins?.tickets.read(ticket),
    clientDocument(tag) {
      const url = publicUrl();
      return url === undefined ? undefined : createClientDocument(url, tag);
    },
  };
}
