/** A text that the model is asked to follow. It is not enforced; rules and permissions are. */
export interface Policy {
  readonly name: string;
  readonly scope: string;
  /** Places it before or after the prompts of a server. */
  readonly mode: 'prepend' | 'append';
  readonly text: string;
  /** When true, no nearer level may replace it. */
  readonly locked: boolean;
  /** When false, it is kept but not used. */
  readonly enabled: boolean;
  /** The order within its scope; lower ones come first. */
  readonly order: number;
}

export interface Objective {
  readonly id: string;
  readonly scope: string;
  readonly text: string;
  readonly enabled: boolean;
  readonly order: number;
}

/** Adds `declared`, which is true for an entry of the configuration. Such an entry is changed only there. */
export type WithDeclared<T> = T & { readonly declared: boolean };

/** The outcome of a policy for one user in one workspace. */
export interface PolicyOutcome<P extends Policy = Policy> {
  readonly policy: P;
  readonly outcome: 'given' | 'disabled' | 'replaced' | 'locked out';
  /** The scope of the policy that is used instead. */
  readonly by: string | undefined;
}

/** The scope of a policy: `org`, `team:T`, `user:U` or `workspace:W`. */
export const scopePattern = /^(?:org|(?:team|user|workspace):[^\s\u0000-\u001f\u007f]{1,128})$/;
export const policyNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const maxTextLength = 16_384;
/** Text without characters that a terminal or a model would hide or alter. */
export const plainText = /^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/;

/** Lists the levels from the farthest to the nearest. The first team of a user is the nearest. */
export function listLevels(userId: string, teams: readonly string[], workspaceId: string | undefined): string[] {
  return [
    'org',
    ...[...teams].reverse().map((team) => `team:${team}`),
    `user:${userId}`,
    ...(workspaceId === undefined ? [] : [`workspace:${workspaceId}`]),
  ];
}

/** Tells whether a scope is above users and workspaces, whose own policies are local. */
export function isInherited(scope: string): boolean {
  return scope === 'org' || scope.startsWith('team:');
}

/**
 * Decides about every policy of these levels, the farthest first. A nearer policy replaces one of the same name, unless
 * that is locked. A disabled policy neither replaces nor locks.
 */
export function judgePolicies<P extends Policy>(policies: readonly P[], levels: readonly string[]): PolicyOutcome<P>[] {
  const ordered = levels.flatMap((level) => policies.filter(({ scope }) => scope === level).sort(compareOrder));
  const standing = new Map<string, P>();
  for (const policy of ordered) {
    if (policy.enabled && standing.get(policy.name)?.locked !== true) standing.set(policy.name, policy);
  }
  return ordered.map((policy) => {
    const stands = standing.get(policy.name);
    if (!policy.enabled) return { policy, outcome: 'disabled', by: undefined };
    if (stands === undefined || stands === policy) return { policy, outcome: 'given', by: undefined };
    const isLockedOut = stands.locked && ordered.indexOf(stands) < ordered.indexOf(policy);
    return { policy, outcome: isLockedOut ? 'locked out' : 'replaced', by: stands.scope };
  });
}

/** Sorts policies for reading: prepended ones from the farthest level on, appended ones from the nearest on. */
export function sortForReading<P extends Policy>(policies: readonly P[], levels: readonly string[]): P[] {
  const prepended = policies.filter(({ mode }) => mode === 'prepend');
  const appended = policies.filter(({ mode }) => mode === 'append');
  const sortByLevel = (some: readonly P[], along: readonly string[]) =>
    along.flatMap((level) => some.filter(({ scope }) => scope === level).sort(compareOrder));
  return [...sortByLevel(prepended, levels), ...sortByLevel(appended, [...levels].reverse())];
}

/** Selects the objectives of all levels, the farthest first, each text once. */
export function selectObjectives<O extends Objective>(objectives: readonly O[], levels: readonly string[]): O[] {
  const seen = new Set<string>();
  return levels
    .flatMap((level) => objectives.filter(({ scope }) => scope === level).sort((a, b) => a.order - b.order))
    .filter(({ enabled, text }) => enabled && !seen.has(text) && seen.add(text));
}

function compareOrder(a: Policy, b: Policy): number {
  return a.order - b.order || (a.name < b.name ? -1 : 1);
}
