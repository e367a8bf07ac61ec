import { AmbitError } from '../errors.ts';
import type { QuotaRefusal } from '../stores/admission.ts';

const words: Readonly<Record<QuotaRefusal['limit'], string>> = {
  callsPerMinute: 'calls a minute',
  concurrentCalls: 'calls at a time',
  totalCalls: 'calls in all',
  totalBytes: 'bytes in all',
};

export function quotaExceeded({ scope, limit, allowed, retryAfterMs }: QuotaRefusal): AmbitError {
  // When a call will end nobody knows; a second is a fair time to look again.
  const wait = limit === 'concurrentCalls' ? 1000 : retryAfterMs;
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `The ${scope} may make ${allowed} ${words[limit]}, and has.`,
    hint:
      limit === 'concurrentCalls'
        ? 'Wait until a call under way has ended, then call again.'
        : wait === null
          ? 'No further call is possible; ask the orchestrator for a new session, or the operator for a larger quota.'
          : `Call again in ${Math.ceil(wait / 1000)} s.`,
    rule: `quotas.${scope}.${limit}`,
    ...(wait === null ? {} : { retryAfterMs: wait }),
  });
}
