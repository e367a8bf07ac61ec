import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { applyTokenPermissions } from '../narrowed-sessions.ts';
import type { Session } from '../session.ts';
import type { SessionReach } from './reach.ts';

/** Refuses a name that could be taken for the id of another session, or for the beginning of one. */
export async function assertIsNoId(name: string, { userId }: SessionRecord, reach: SessionReach): Promise<void> {
  if (userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'Sessions of anonymous callers have no names.',
      hint: 'Leave the name out, and use the id of the child.',
    });
  }
  if (!/^[0-9a-f]{4,}$/i.test(name) && !(await reach.isIdOf(name, userId))) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The name "${name}" could be taken for the id of a session.`,
    hint: 'Choose another name, such as "worker-1".',
  });
}

/**
 * Names the agent of a child. An agent that chose the whole name could take that of another agent, and with it what
 * rules and servers allow the other one.
 */
export function nameAgent(ofParent: string | null, wanted: string | undefined): string | undefined {
  if (wanted === undefined || wanted === ofParent) return ofParent ?? undefined;
  const prefix = `${ofParent ?? 'child'}:`;
  return wanted.startsWith(prefix) ? wanted : `${prefix}${wanted}`;
}

/** Refuses permissions that the parent has and the token of this call has not. */
export function assertTokenHas(parent: SessionRecord, wanted: readonly string[], { tokenPermissions }: Session): void {
  const held = applyTokenPermissions(parent.permissions, tokenPermissions);
  const beyond = wanted.find((name) => !held.includes(name));
  if (beyond === undefined) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `This call does not have the permission "${beyond.slice(0, 60)}", and cannot give it to a child session.`,
    hint: 'Request fewer permissions.',
    rule: 'parent.permissions',
  });
}
