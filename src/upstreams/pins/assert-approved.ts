import { AmbitError } from '../../errors.ts';
import type { Approvals } from './approvals.ts';
import type { Approvable } from './pinned.ts';

const mostPlaces = 5;

/**
 * Refuses a server that is not approved as it stands now. To be called before a link to it is made, and again just
 * before each start of its process. The message may reach a model: it names places, never values.
 */
export function assertApproved(approvals: Approvals, server: Approvable): void {
  const verdict = approvals.check(server);
  if (verdict.state === 'approved') return;
  const places = [...new Set(verdict.changes.map(({ place }) => place))];
  const more = places.length > mostPlaces ? `, and ${places.length - mostPlaces} more` : '';
  const named = places.length === 0 ? '' : ` (${places.slice(0, mostPlaces).join(', ')}${more})`;
  if (verdict.state === 'exposed') {
    throw new AmbitError('SERVER_NOT_APPROVED', {
      what: `The server "${server.name}" is not started: another account could exchange what it runs${named}.`,
      hint: `The operator can see how with "ambit server check ${server.name}", and take away the right to write there.`,
      rule: 'approval',
    });
  }
  const what =
    verdict.state === 'changed'
      ? `The server "${server.name}" has changed since it was approved${named}, so it is not started.`
      : `The server "${server.name}" comes from a ${server.source} file and has not been approved${named}.`;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what,
    hint: `The operator can look at it and approve it with "ambit server approve ${server.name}".`,
    rule: 'approval',
  });
}
