import { AmbitError } from '../errors.ts';

export function unavailable(what: string, cause?: unknown): AmbitError {
  return new AmbitError('STORE_UNAVAILABLE', cause === undefined ? { what } : { what, cause });
}

export const closedStore = (): AmbitError => unavailable('The session store has been closed.');
