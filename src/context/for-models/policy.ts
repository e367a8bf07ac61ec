/** A policy as one user in one workspace finds it, and why. */
export interface PolicyDecision<P extends Policy = Policy> {
  readonly policy: P;
  readonly outcome: 'given' | 'disabled' | 'replaced' | 'locked out';
  /** The scope of the one that stands instead. */
  readonly by: string | undefined;
}
/** What the model must keep to: text, not enforcement. What must hold is a rule or a permission. */
export interface Policy {
  readonly name: string;
  readonly scope: string;
  /** Before or after the prompts of a server. */
  readonly mode: 'prepend' | 'append';
  readonly text: string;
  /** No nearer level may have another one of this name. */
  readonly locked: boolean;
  /** One that is not is kept and counts for nothing. */
  readonly enabled: boolean;
  /** Among those of its scope; the lower ones come first. */
  readonly order: number;
}

/** What the work is for. */
export interface Objective {
  readonly id: string;
  readonly scope: string;
  readonly text: string;
  readonly enabled: boolean;
  readonly order: number;
}

/** Written in the configuration, and changed only there. */
export type WithDeclared<T> = T & { readonly declared: boolean };

/** For whom it holds: `org`, `team:T`, `user:U` or `workspace:W`. */
export const scopePattern = /^(?:org|(?:team|user|workspace):[^\s\u0000-\u001f\u007f]{1,128})$/;
export const policyNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const maxTextLength = 16_384;
/** Nothing that a terminal or a model would not show as it is. */
export const plainText = /^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/;

/** From the farthest to the nearest; whoever is in several teams is nearest to the one named first. */
export function listLevels(
  userId: string,
  teams: readonly string[],
  workspaceId: string | undefined,
): readonly string[] {
  return [
    'org',
    ...[...teams].reverse().map((team) => `team:${team}`),
    `user:${userId}`,
    ...(workspaceId === undefined ? [] : [`workspace:${workspaceId}`]),
  ];
}

/** What a user or a workspace has of its own is local; all else comes from above. */
export function isInherited(scope: string): boolean {
  return scope === 'org' || scope.startsWith('team:');
}

/**
 * Every policy of these levels, the farthest first, with what becomes of it: a nearer one replaces one of the same name,
 * unless that is locked. One that is disabled replaces nothing and locks nothing.
 */
export function judgePolicies<P extends Policy>(
  policies: readonly P[],
  levels: readonly string[],
): PolicyDecision<P>[] {
  const ordered = levels.flatMap((level) => policies.filter(({ scope }) => scope === level).sort(compareOrder));
  const standing = new Map<string, P>();
  for (const policy of ordered) {
    if (policy.enabled && standing.get(policy.name)?.locked !== true) standing.set(policy.name, policy);
  }
  return ordered.map((policy) => {
    const stands = standing.get(policy.name);
    if (!policy.enabled) return { policy, outcome: 'disabled', by: undefined };
    if (stands === undefined || stands === policy) return { policy, outcome: 'given', by: undefined };
    return { policy, outcome: stands.locked && isBefore(stands, policy) ? 'locked out' : 'replaced', by: stands.scope };
  });

  function isBefore(a: P, b: P): boolean {
    return ordered.indexOf(a) < ordered.indexOf(b);
  }
}

/**
 * In the order they are read: what is prepended from the farthest level to the nearest, what is appended the other way,
 * so that the organisation has the first and the last word.
 */
export function sortForReading<P extends Policy>(policies: readonly P[], levels: readonly string[]): P[] {
  const prepended = policies.filter(({ mode }) => mode === 'prepend');
  const appended = policies.filter(({ mode }) => mode === 'append');
  const sortByLevel = (some: readonly P[], along: readonly string[]) =>
    along.flatMap((level) => some.filter(({ scope }) => scope === level).sort(compareOrder));
  return [...sortByLevel(prepended, levels), ...sortByLevel(appended, [...levels].reverse())];
}

/** Those of all levels, the farthest first; the same words are said once. */
export function selectObjectives<O extends Objective>(objectives: readonly O[], levels: readonly string[]): O[] {
  const said = new Set<string>();
  return levels
    .flatMap((level) => objectives.filter(({ scope }) => scope === level).sort((a, b) => a.order - b.order))
    .filter(({ enabled, text }) => enabled && !said.has(text) && said.add(text));
}

function compareOrder(a: Policy, b: Policy): number {
  return a.order - b.order || (a.name < b.name ? -1 : 1);
}
