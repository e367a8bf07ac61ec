import { AmbitError } from '../errors.ts';
import type { LeaveReason } from './session.ts';

/** What someone who may know is told about a session that is no longer there. */
export function goneBecause(reason: LeaveReason | undefined): AmbitError {
  if (reason === 'expired') return new AmbitError('SESSION_EXPIRED');
  if (reason === 'unloaded') return new AmbitError('SESSION_ENDED', { what: 'The gateway is shutting down.' });
  return new AmbitError('SESSION_ENDED');
}
