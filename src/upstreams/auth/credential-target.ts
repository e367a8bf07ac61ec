import { createHash } from 'node:crypto';
import { whyVariableRefused } from '../../context/for-tools/refused-variables.ts';
import { AmbitError } from '../../errors.ts';

/** The user and the server of a credential, and the name under which the server finds it. */
export interface CredentialTarget {
  readonly userId: string;
  readonly server: string;
  readonly kind: 'env' | 'header';
  /** Header names are in lower case. */
  readonly name: string;
}

/** The part of a server that decides whether it may get a credential. */
interface ReceivingServer {
  readonly name: string;
  readonly kind: 'stdio' | 'http';
  readonly scope?: string;
}

const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const maxValueBytes = 8192;
const brokenText = /\p{Surrogate}|\u0000/u;

/** Headers of the transport, and those that Ambit writes itself. */
const reservedHeaders =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|keep-alive|proxy-.*|expect|accept|accept-encoding|cookie2?|origin|forwarded|via|x-forwarded-.*|mcp-.*|txn-token|last-event-id)$/;

export function createTarget(userId: string, server: string, kind: 'env' | 'header', name: string): CredentialTarget {
  return { userId, server, kind, name: kind === 'header' ? name.toLowerCase() : name };
}

/** The prefix of the keys of a user's credentials and login for a server. The hash bounds the length of the key. */
export function credentialKeyPrefix(userId: string, server: string): string {
  return `${createHash('sha256').update(userId).digest('base64url')}/${server}/`;
}

export function credentialKey({ userId, server, kind, name }: CredentialTarget): string {
  return `${credentialKeyPrefix(userId, server)}${kind}/${name}`;
}

/** False for a process that several users share: it must not know a credential of one of them. */
export function isForOneUser({ kind, scope }: ReceivingServer): boolean {
  return kind === 'http' || (scope !== 'workspace' && scope !== 'shared');
}

/** Throws when a credential for this target could never be used. */
export function assertTarget(target: CredentialTarget, server: ReceivingServer, prefixes: readonly string[]): void {
  const { userId, kind, name } = target;
  if (userId === '' || Buffer.byteLength(userId) > 512 || brokenText.test(userId))
    throwInvalid('That is not a valid user name.');
  if (kind === 'env' && server.kind !== 'stdio') {
    throwInvalid(`The server "${server.name}" is reached over HTTP and has no environment variables; use a header.`);
  }
  if (kind === 'header' && server.kind !== 'http') {
    throwInvalid(`The server "${server.name}" is a local process and has no headers; use an environment variable.`);
  }
  if (!isForOneUser(server)) {
    throwInvalid(
      `The process of "${server.name}" serves several users (scope ${server.scope}), so it cannot have credentials of one user.`,
    );
  }
  const why = findNameProblem(kind, name, prefixes);
  if (why !== undefined) throwInvalid(`A credential cannot be passed as ${name}: ${why}.`);
}

/** Finds the reason why no credential may have this name; undefined when one may. */
export function findNameProblem(kind: 'env' | 'header', name: string, prefixes: readonly string[]): string | undefined {
  if (kind === 'header') {
    if (!headerName.test(name)) return 'that is not a valid header name';
    return reservedHeaders.test(name)
      ? 'this header is part of the HTTP transport, or is set by Ambit itself'
      : undefined;
  }
  if (!variableName.test(name)) return 'that is not a valid variable name';
  if (/^TMPDIR$/i.test(name)) return 'each process has its own folder in this variable';
  return whyVariableRefused(name, '', prefixes);
}

export function assertCredentialValue(kind: 'env' | 'header', value: string): void {
  if (value === '') throwInvalid('The value is empty.');
  if (Buffer.byteLength(value) > maxValueBytes) throwInvalid(`The value is longer than ${maxValueBytes} bytes.`);
  if (brokenText.test(value) || /[\r\n]/.test(value))
    throwInvalid('The value contains a line break or NUL, or is not valid Unicode.');
  if (kind === 'header' && !/^[\t\x20-\x7e]+$/.test(value))
    throwInvalid('A header can contain only printable ASCII characters.');
}

export function throwInvalid(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
