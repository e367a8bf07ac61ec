import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { isAtMost, lowest, type TrustLevel } from '../rules/trust-level.ts';

/** One thing that bounds the trust of a session, and what it is called. */
export interface TrustBound {
  readonly most: TrustLevel;
  readonly rule: string;
  readonly why?: string;
}

/** Several users: whoever acts with the operator's own authority could read what belongs to the others. */
export async function directBound(
  { allowDirect }: Config['sessions'],
  ofSeveralUsers: (() => Promise<boolean>) | undefined,
): Promise<TrustBound> {
  const rule = 'sessions.allowDirect';
  if (allowDirect === 'never') return { most: 'sandboxed', rule };
  if (allowDirect === 'always' || (await ofSeveralUsers?.()) !== true) return { most: 'direct', rule };
  const why = 'more than one user can call here, and a direct server could read what is not its own user’s';
  return { most: 'sandboxed', rule, why };
}

/** What is asked for is refused above the bounds; the default is lowered to them. */
export function trustWithin(
  bounds: readonly TrustBound[],
  wanted: TrustLevel | undefined,
  standard: TrustLevel,
): TrustLevel {
  const ceiling = lowest(bounds.map(({ most }) => most));
  if (wanted === undefined) return lowest([standard, ceiling]);
  if (isAtMost(wanted, ceiling)) return wanted;
  const { rule, why } = bounds.find(({ most }) => most === ceiling) as TrustBound;
  const because = why === undefined ? '' : `: ${why}`;
  throw new AmbitError('TRUST_REQUIRED', {
    what: `The trust level "${wanted}" was asked for, but the bounds here allow "${ceiling}" at most${because}.`,
    rule,
  });
}
