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
  user: { type: 'string', value: 'U', help: 'whose' },
  server: { type: 'string', value: 'S', help: 'for which server' },
  env: { type: 'string', value: 'NAME', help: 'the variable its process finds it in' },
  header: { type: 'string', value: 'NAME', help: 'the header it is sent in' },
} as const satisfies Readonly<Record<string, Flag>>;

export const credentialSet: Command = {
  help: 'keep what a server needs for a user; the value comes from stdin',
  flags: { ...credentialFlags, json: jsonFlag },
  async run(invocation) {
    const which = readCredentialName(invocation);
    const value = await readSecret(process.stdin, isTerminal() ? process.stderr : undefined);
    await controlRequest(invocation, 'POST /api/v1/credentials', { body: { ...which, value } });
    printData(invocation, { ...which, set: true }, () => `Kept for ${which.userId} at ${which.server}.`);
  },
};

export const credentialList: Command = {
  help: 'the credentials and logins there are, without their values',
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
        ? 'No credentials. Keep one with "ambit credential set".'
        : renderTable(['USER', 'SERVER', 'NAME', 'SET', 'NOTE'], rows);
    printData(invocation, { credentials, logins }, show);
  },
};

type Credential = AnswerOf<'GET /api/v1/credentials'>['credentials'][number];
const loginStates = { active: '', lost: 'lost: log in again', wanted: 'log in again: more is wanted' };

export const credentialRemove: Command = {
  help: 'forget a credential, and end what was started with it',
  flags: {
    ...credentialFlags,
    login: { type: 'boolean', help: 'the login of the user there' },
    json: jsonFlag,
  },
  async run(invocation) {
    if (invocation.flags['login'] === true) return removeLogin(invocation);
    const which = readCredentialName(invocation);
    const { removed } = await controlRequest(invocation, 'DELETE /api/v1/credentials', { body: which });
    if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such credential.' });
    printData(invocation, { ...which, removed }, () => `Removed for ${which.userId} at ${which.server}.`);
    return 0;
  },
};

async function removeLogin(invocation: Invocation): Promise<number> {
  const [userId, server] = [readFlag(invocation, 'user'), readFlag(invocation, 'server')];
  if (userId === undefined || server === undefined) throw new UsageError('--user U and --server S are needed');
  if (readFlag(invocation, 'env') !== undefined || readFlag(invocation, 'header') !== undefined) {
    throw new UsageError('say either --login or the name of a credential');
  }
  const which = { userId, server };
  const { removed } = await controlRequest(invocation, 'DELETE /api/v1/logins', { body: which });
  if (!removed) throw new AmbitError('REQUEST_INVALID', { what: 'There is no such login.' });
  printData(invocation, { ...which, login: true, removed }, () => `${userId} is logged out of ${server}.`);
  return 0;
}

function renderCredential({ userId, server, env, header, setAt, usable }: Credential): string[] {
  const state = usable ? '' : 'cannot be opened with the key here';
  return [userId, server, env ?? `${header}:`, setAt.slice(0, 10), state];
}

function renderLogin({ userId, server, madeAt, state }: AnswerOf<'GET /api/v1/logins'>['logins'][number]): string[] {
  return [userId, server, '(login)', madeAt.slice(0, 10), loginStates[state]];
}

function readCredentialName(invocation: Invocation): CredentialName {
  const [userId, server] = [requireFlag(invocation, 'user', 'U'), requireFlag(invocation, 'server', 'S')];
  const [env, header] = [readFlag(invocation, 'env'), readFlag(invocation, 'header')];
  if ((env === undefined) === (header === undefined)) throw new UsageError('say either --env NAME or --header NAME');
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
  if (value === '') throw new UsageError('the value is missing: give it on stdin');
  return value;
}
