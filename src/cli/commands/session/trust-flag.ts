import { normalizeTrust, type TrustLevel } from '../../../rules/trust-level.ts';
import { type Invocation, text, UsageFault } from '../../command.ts';

/** What `--trust` says; undefined when it is not given. */
export function trustOf(invocation: Invocation): TrustLevel | undefined {
  const trust = text(invocation, 'trust');
  if (trust === undefined) return undefined;
  const level = normalizeTrust(trust);
  if (level === undefined) throw new UsageFault('--trust is "direct" or "sandboxed"');
  return level;
}
