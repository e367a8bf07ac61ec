import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose';

export interface IssuerKeysOptions {
  readonly jwksUri: string;
  /** Milliseconds that only ever go on: a clock that is set back must not keep old keys in use. */
  readonly elapsed: () => number;
}

const freshMs = 600_000;
/** How long known keys are taken while their issuer cannot be asked. */
const staleMs = 3_600_000;
/** No more than one question in this time, whatever tokens come and whether it was answered or not. */
const cooldownMs = 10_000;
const timeoutMs = 5000;
const maxBytes = 1024 * 1024;

/**
 * The public keys of an issuer, asked for when a token needs them. A token that names a key nobody knows is a reason to
 * ask again, since keys are rotated; but not for each such token, or strangers could have us flood the issuer.
 */
export async function createIssuerKeys({ jwksUri, elapsed }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, errors } = await import('jose');
  let known: { readonly keys: ReturnType<typeof createLocalJWKSet>; readonly at: number } | undefined;
  let askedAt = -Infinity;
  let asking: Promise<void> | undefined;
  let failure = '';

  /** Resolves when it is done; what is known says whether it was any use. */
  function refreshKeys(): Promise<void> {
    if (asking !== undefined) return asking;
    if (elapsed() - askedAt < cooldownMs) return Promise.resolve();
    askedAt = elapsed();
    const at = askedAt;
    asking = fetchKeys(jwksUri)
      .then((set) => {
        known = { keys: createLocalJWKSet(set), at };
      })
      .catch((error: unknown) => {
        failure = describeFailure(error);
      })
      .finally(() => {
        asking = undefined;
      });
    return asking;
  }

  return async function issuerKeys(header, token) {
    if (known === undefined || elapsed() - known.at >= freshMs) await refreshKeys();
    const held = known;
    if (held === undefined || elapsed() - held.at >= staleMs) throw new IssuerUnreachableError(failure);
    try {
      return await held.keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refreshKeys();
      if (known === held || known === undefined) throw error;
      return known.keys(header, token);
    }
  };
}

/** Nothing is known of the issuer's keys: no token can be judged, be it good or not. */
export class IssuerUnreachableError extends Error {
  override readonly name = 'IssuerUnreachable';
}

/** In few words, none of them the issuer's own. */
function describeFailure(error: unknown): string {
  const { name, message, cause } = error as Error & { readonly cause?: { readonly code?: string } };
  if (name === 'TimeoutError') return 'no answer in time';
  return cause?.code ?? (error instanceof SyntaxError ? 'no JSON' : message);
}

/** Redirects are not followed: the operator has named the one address that is asked. */
async function fetchKeys(jwksUri: string): Promise<JSONWebKeySet> {
  const response = await fetch(jwksUri, {
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
    headers: { accept: 'application/jwk-set+json, application/json' },
  });
  if (response.status !== 200 || response.body === null) {
    await response.body?.cancel();
    throw new Error(`status ${response.status}`);
  }
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body) {
    length += part.length;
    if (length > maxBytes) throw new Error('too long');
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString('utf8')) as JSONWebKeySet;
}
