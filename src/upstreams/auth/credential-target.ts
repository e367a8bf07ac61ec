import { createHash } from 'node:crypto';
import { refusedVariable } from '../../context/for-tools/foreign-env.ts';
import { AmbitError } from '../../errors.ts';

/** Whose credential it is, for which server, and under which name the server finds it. */
export interface CredentialTarget {
  readonly userId: string;
  readonly server: string;
  readonly kind: 'env' | 'header';
  /** Names of headers are in lower case: they mean the same in any. */
  readonly name: string;
}

/** As much of a server as decides whether a user's credential may go there. */
export interface ReceivingServer {
  readonly name: string;
  readonly kind: 'stdio' | 'http';
  readonly scope?: string;
}

const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/;
const maxValueBytes = 8192;
const brokenText = /\p{Surrogate}|\u0000/u;

/** Headers that say how a request is carried, and those that Ambit writes itself. */
const reservedHeaders =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|keep-alive|proxy-.*|expect|accept|accept-encoding|cookie2?|origin|forwarded|via|x-forwarded-.*|mcp-.*|txn-token|last-event-id)$/;

export function createTarget(userId: string, server: string, kind: 'env' | 'header', name: string): CredentialTarget {
  return { userId, server, kind, name: kind === 'header' ? name.toLowerCase() : name };
}

/** All credentials of a user for a server begin so; a name of any length fits a key that has a bound. */
export function credentialKeyPrefix({ userId, server }: Pick<CredentialTarget, 'userId' | 'server'>): string {
  return `${createHash('sha256').update(userId).digest('base64url')}/${server}/`;
}

export function credentialKey(target: CredentialTarget): string {
  return `${credentialKeyPrefix(target)}${target.kind}/${target.name}`;
}

/** A process of several users must not know what belongs to one of them. */
export function isForOneUser({ kind, scope }: ReceivingServer): boolean {
  return kind === 'http' || (scope !== 'workspace' && scope !== 'shared');
}

/** Throws when a credential may not be kept for this place, or could never be given. */
export function assertTarget(target: CredentialTarget, server: ReceivingServer, prefixes: readonly string[]): void {
  const { userId, kind, name } = target;
  if (userId === '' || Buffer.byteLength(userId) > 512 || brokenText.test(userId))
    throwInvalid('That is no name of a user.');
  if (kind === 'env' && server.kind !== 'stdio') {
    throwInvalid(`The server "${server.name}" is reached over HTTP and has no environment; give a header.`);
  }
  if (kind === 'header' && server.kind !== 'http') {
    throwInvalid(`The server "${server.name}" is a process and takes no headers; give a variable.`);
  }
  if (!isForOneUser(server)) {
    throwInvalid(
      `The process of "${server.name}" serves several users (scope ${server.scope}); it gets nobody's credential.`,
    );
  }
  const why = findNameProblem(kind, name, prefixes);
  if (why !== undefined) throwInvalid(`A credential cannot be given as ${name}: ${why}.`);
}

/** Why no credential may have this name; undefined when one may. */
export function findNameProblem(kind: 'env' | 'header', name: string, prefixes: readonly string[]): string | undefined {
  if (kind === 'header') {
    if (!headerName.test(name)) return 'that is no name of a header';
    return reservedHeaders.test(name)
      ? 'this header says how a request is carried, or is written by Ambit itself'
      : undefined;
  }
  if (!variableName.test(name)) return 'that is no name of a variable';
  if (/^TMPDIR$/i.test(name)) return 'each process has a folder of its own there';
  return refusedVariable(name, '', prefixes);
}

export function assertCredentialValue(kind: 'env' | 'header', value: string): void {
  if (value === '') throwInvalid('The value is empty.');
  if (Buffer.byteLength(value) > maxValueBytes) throwInvalid(`The value is longer than ${maxValueBytes} bytes.`);
  if (brokenText.test(value) || /[\r\n]/.test(value))
    throwInvalid('The value holds a line end, NUL, or is no Unicode.');
  if (kind === 'header' && !/^[\t\x20-\x7e]+$/.test(value)) throwInvalid('A header takes printable ASCII only.');
}

function throwInvalid(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
