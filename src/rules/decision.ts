import type { RuleArguments } from '../protocol/rule-arguments.ts';
import type { SessionClaims } from './session-base.ts';

export interface RuleInput {
  readonly session: SessionClaims;
  readonly server: string;
  readonly tool: string;
}

/** Reads the arguments. Gets the names that rules look up, so that other spellings of them are noticed. */
export type ReadArguments = (names: ReadonlySet<string>) => RuleArguments;

/** The outcome of one rule that names the tool. */
export interface RuleOutcome {
  readonly id: string;
  readonly effect: 'allow' | 'deny';
  readonly outcome: 'holds' | 'does not hold' | 'error';
  readonly error?: string;
  readonly claims: readonly string[];
}

export interface Decision {
  readonly allowed: boolean;
  /** The id of the rule, or the configuration key, that decided; `default` if nothing denied it. */
  readonly rule: string;
  /** A sentence without its subject: "it needs …". */
  readonly reason: string;
  readonly hint?: string;
  /** All permissions that the tool needs, if some are missing. */
  readonly needs?: readonly string[];
  /** The inputs of the decision, such as `session.trustLevel` or `args.path`. */
  readonly claims: readonly string[];
  readonly rules: readonly RuleOutcome[];
}
