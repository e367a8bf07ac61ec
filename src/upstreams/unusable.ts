import { AmbitError } from '../errors.ts';

/** The failure of a call whose answer Ambit could not prepare for the client. */
export function unusable(server: string, cause: unknown): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `The answer of the server "${server}" cannot be used.`, cause });
}
