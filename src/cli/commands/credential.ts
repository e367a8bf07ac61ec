import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { AmbitError } from '../../errors.ts';
import type { CredentialName } from '../../upstreams/auth/credentials.ts';
import { type Command, type Flag, type Invocation, jsonFlag, readFlag, requireFlag, UsageError } from '../command.ts';
import { isTerminal } from '../io/ask.ts';
import { controlRequest } from '../io/control-request.ts';
import { printData, renderTable } from '../io/output.ts';

const maxBytes = 65_536;

const credentialFlags = {
  user: { type: 'string', value: 'NAME', help: 'User the credential belongs to' },
  server: { type: 'string', value: 'NAME', help: 'Server that uses the credential' },
  env: { type: 'string', value: 'NAME', help: 'Environment variable that carries the credential' },
  header: { type: 'string', value: 'NAME', help: 'HTTP header that carries the credential' },
} as const satisfies Readonly<Record<string, Flag>>;

export const credentialSet: Command = {
  help: 'Store a credential of a user for a server; read from stdin',
  flags: { ...credentialFlags, json: jsonFlag },
  async run(invocation) {
    const which = readCredentialName(invocation);
    const value = await readSecret(process.stdin, isTerminal() ? process.stderr : undefined);
    await controlRequest(invocation, 'POST /api/v1/credentials', { body: { ...which, value } });
    printData(
      invocation,
      { ...which, set: true },
      () => `Stored the credential of ${which.userId} for ${which.server}.`,
    );
  },
};

export const credentialList: Command = {
  help: 'List credentials and logins (values are never shown)',
  flags: {
    user: credentialFlags.user,
    server: credentialFlags.server,
    json: jsonFlag,
  },
  async run(invocation) {
    const [user, server] = [readFlag(invocation, 'user'), readFlag(invocation, 'server')];
    const fits = (each: { readonly userId: string; readonly server: string }) =>
      (user === undefined || each.userId === user) && (server === undefined || each.server === server);
    const given = await controlRequest(invocation, 'GET /api/v1/credentials');
    const made = await controlRequest(invocation, 'GET /api/v1/logins');
    const [credentials, logins] = [given.credentials.filter(fits), made.logins.filter(fits)];
    const rows = [...credentials.map(renderCredential), ...logins.map(renderLogin)];
    const show = () =>
      rows.length === 0
        ? 'No credentials. Store one with "ambit credential set".'
        : renderTable(['USER', 'SERVER', 'NAME', 'SET', 'NOTE'], rows);
    printData(invocation, { credentials, logins }, show);
  },
};

type Credential = AnswerOf<'GET /api/v1/credentials'>['credentials'][number];
const loginStates = {
  active: '',
  lost: 'log in again: the login was lost',
  wanted: 'log in again: the server needs more rights',
};

export const credentialRemove: Command = {
  help: 'Delete a credential or login of a user',
  flags: {
    ...credentialFlags,
    login: { type: 'boolean', help: 'Delete the login of the user instead' },
    json: jsonFlag,
  },
  async run(invocation) {
    if (invocation.flags['login'] === true) return removeLogin(invocation);
    const which = readCredentialName(invocation);
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/credentials', { body: which });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such credential.' });
    printData(
      invocation,
      { ...which, removed },
      () => `Deleted the credential of ${which.userId} for ${which.server}.`,
    );
    return 0;
  },
};

async function removeLogin(invocation: Invocation): Promise<number> {
  const [userId, server] = [readFlag(invocation, 'user'), readFlag(invocation, 'server')];
  if (userId === undefined || server === undefined) throw new UsageError('--user NAME and --server NAME are required');
  if (readFlag(invocation, 'env') !== undefined || readFlag(invocation, 'header') !== undefined) {
    throw new UsageError('--login cannot be combined with --env or --header');
  }
  const which = { userId, server };
  const { removed } = await controlRequest(invocation, 'DELETE /api/v1/logins', { body: which });
  if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such login.' });
  printData(invocation, { ...which, login: true, removed }, () => `Logged ${userId} out of ${server}.`);
  return 0;
}

function renderCredential({ userId, server, env, header, setAt, usable }: Credential): string[] {
  const state = usable ? '' : 'cannot be decrypted with the current key';
  return [userId, server, env ?? `${header}:`, setAt.slice(0, 10), state];
}

function renderLogin({ userId, server, madeAt, state }: AnswerOf<'GET /api/v1/logins'>['logins'][number]): string[] {
  return [userId, server, '(login)', madeAt.slice(0, 10), loginStates[state]];
}

function readCredentialName(invocation: Invocation): CredentialName {
  const [userId, server] = [requireFlag(invocation, 'user', 'NAME'), requireFlag(invocation, 'server', 'NAME')];
  const [env, header] = [readFlag(invocation, 'env'), readFlag(invocation, 'header')];
  if ((env === undefined) === (header === undefined)) throw new UsageError('give either --env NAME or --header NAME');
  return { userId, server, ...(env === undefined ? { header } : { env }) };
}

/** Reads a secret value: typed without echo at a terminal, else all of the input without its last line end. */
export async function readSecret(
  input: NodeJS.ReadableStream,
  terminal: NodeJS.WritableStream | undefined,
): Promise<string> {
  if (terminal !== undefined) return readFromTerminal(input, terminal);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk as Buffer);
    size += bytes.length;
    if (size > maxBytes) throw new UsageError(`the value on stdin is longer than ${maxBytes} bytes`);
    chunks.push(bytes);
  }
  return requireValue(
    Buffer.concat(chunks)
      .toString('utf8')
      .replace(/\r?\n$/, ''),
  );
}

async function readFromTerminal(input: NodeJS.ReadableStream, terminal: NodeJS.WritableStream): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const line = createInterface({ input, output: silent, terminal: true });
  terminal.write('Value (not shown): ');
  try {
    return requireValue(await line.question(''));
  } finally {
    line.close();
    terminal.write('\n');
  }
}

function requireValue(value: string): string {
  if (value === '') throw new UsageError('the value is empty', 'Pipe it to stdin, or type it when asked.');
  return value;
}
