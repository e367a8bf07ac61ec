import type { JSONWebKeySet, JWTVerifyGetKey } from 'jose';

interface IssuerKeysOptions {
  readonly jwksUri: string;
  /** A monotonic clock in milliseconds: setting the system clock back must not keep old keys in use. */
  readonly elapsed: () => number;
}

const freshMs = 600_000;
/** The time for which known keys are used while the issuer is unreachable. */
const staleMs = 3_600_000;
/** The shortest time between two requests to the issuer, whatever tokens arrive. */
const cooldownMs = 10_000;
const timeoutMs = 5000;
const maxBytes = 1024 * 1024;

/**
 * Creates the key source of an issuer, which fetches keys when a token needs them. A token with an unknown key leads to
 * another fetch, since keys are rotated; but not every such token, or strangers could make us flood the issuer.
 */
export async function createIssuerKeys({ jwksUri, elapsed }: IssuerKeysOptions): Promise<JWTVerifyGetKey> {
  const { createLocalJWKSet, errors } = await import('jose');
  let known: { readonly keys: ReturnType<typeof createLocalJWKSet>; readonly at: number } | undefined;
  let askedAt = -Infinity;
  let refreshing: Promise<void> | undefined;
  let failure = '';

  /** Fetches the keys unless it was tried a moment ago. `known` tells whether it succeeded. */
  function refreshKeys(): Promise<void> {
    if (refreshing !== undefined) return refreshing;
    if (elapsed() - askedAt < cooldownMs) return Promise.resolve();
    askedAt = elapsed();
    const at = askedAt;
    refreshing = fetchKeys(jwksUri)
      .then((set) => {
        known = { keys: createLocalJWKSet(set), at };
      })
      .catch((error: unknown) => {
        failure = describeFailure(error);
      })
      .finally(() => {
        refreshing = undefined;
      });
    return refreshing;
  }

  return async function issuerKeys(header, token) {
    if (known === undefined || elapsed() - known.at >= freshMs) await refreshKeys();
    const current = known;
    if (current === undefined || elapsed() - current.at >= staleMs) throw new IssuerUnreachableError(failure);
    try {
      return await current.keys(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error;
      await refreshKeys();
      if (known === current || known === undefined) throw error;
      return known.keys(header, token);
    }
  };
}

/** The keys of the issuer are unknown, so no token can be verified. */
export class IssuerUnreachableError extends Error {
  override readonly name = 'IssuerUnreachable';
}

/** Describes a failure without repeating text of the issuer. */
function describeFailure(error: unknown): string {
  const { name, message, cause } = error as Error & { readonly cause?: { readonly code?: string } };
  if (name === 'TimeoutError') return 'no answer in time';
  return cause?.code ?? (error instanceof SyntaxError ? 'no JSON' : message);
}

/** Fetches the keys without following redirects, because the operator named this one address. */
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
