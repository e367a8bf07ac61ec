import type { RuleArguments } from '../protocol/rule-arguments.ts';
import type { SessionClaims } from './session-base.ts';

export interface RuleInput {
  readonly session: SessionClaims;
  readonly server: string;
  readonly tool: string;
}

/** Given the names that rules look for, so that other spellings of them are noticed. */
export type ReadArguments = (names: ReadonlySet<string>) => RuleArguments;

/** How one rule that names the tool came out. */
export interface RuleOutcome {
  readonly id: string;
  readonly effect: 'allow' | 'deny';
  readonly outcome: 'holds' | 'does not hold' | 'error';
  readonly error?: string;
  readonly claims: readonly string[];
}

export interface Decision {
  readonly allowed: boolean;
  /** The id of a rule, the key of the configuration that decided, or `default` where nothing spoke against it. */
  readonly rule: string;
  /** A sentence without its subject: "it needs …". */
  readonly reason: string;
  readonly hint?: string;
  /** Where permissions are missing: all that the tool needs. */
  readonly needs?: readonly string[];
  /** What it was decided from, as `session.trustLevel` or `args.path`. */
  readonly claims: readonly string[];
  readonly rules: readonly RuleOutcome[];
}
