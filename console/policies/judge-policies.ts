/** A policy as the form has it. */
export interface Draft {
  readonly scope: string;
  readonly name: string;
  readonly mode: 'prepend' | 'append';
  readonly text: string;
  readonly order: number;
  readonly locked: boolean;
  readonly enabled: boolean;
}

/** The user and the workspace of a preview. */
export interface Reader {
  readonly userId: string;
  readonly teams: readonly string[];
  readonly workspaceId: string | null;
}

/** The outcome of a policy for a user, as the gateway computes it in `src/context/for-models/policy.ts`. */
export interface JudgedDraft {
  readonly policy: Draft;
  readonly outcome: 'given' | 'disabled' | 'replaced' | 'locked out';
  /** The scope of the policy that is used instead. */
  readonly by: string | null;
}

/** Lists the scopes that apply to the user, from the widest to the narrowest. */
export function listLevels({ userId, teams, workspaceId }: Reader): string[] {
  const ofTeams = [...teams].reverse().map((team) => `team:${team}`);
  return ['org', ...ofTeams, `user:${userId}`, ...(workspaceId === null ? [] : [`workspace:${workspaceId}`])];
}

/** Decides which policies the user is given: a narrower one replaces one of its name, unless that is locked. */
export function judgePolicies(policies: readonly Draft[], levels: readonly string[]): JudgedDraft[] {
  const ordered = sortAlong(policies, levels);
  const standing = new Map<string, Draft>();
  for (const policy of ordered) {
    if (policy.enabled && standing.get(policy.name)?.locked !== true) standing.set(policy.name, policy);
  }
  return ordered.map((policy) => {
    const stands = standing.get(policy.name);
    if (!policy.enabled) return { policy, outcome: 'disabled', by: null };
    if (stands === undefined || stands === policy) return { policy, outcome: 'given', by: null };
    const isLockedOut = stands.locked && ordered.indexOf(stands) < ordered.indexOf(policy);
    return { policy, outcome: isLockedOut ? 'locked out' : 'replaced', by: stands.scope };
  });
}

/** Sorts policies as the model reads them. */
export function sortForReading(policies: readonly Draft[], levels: readonly string[]): Draft[] {
  const of = (wanted: Draft['mode']) => policies.filter(({ mode }) => mode === wanted);
  return [...sortAlong(of('prepend'), levels), ...sortAlong(of('append'), [...levels].reverse())];
}

function sortAlong(policies: readonly Draft[], levels: readonly string[]): Draft[] {
  return levels.flatMap((level) => policies.filter(({ scope }) => scope === level).sort(compareOrder));
}

function compareOrder(a: Draft, b: Draft): number {
  return a.order - b.order || (a.name < b.name ? -1 : 1);
}
