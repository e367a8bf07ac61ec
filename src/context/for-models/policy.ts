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
export type Declared<T> = T & { readonly declared: boolean };

/** For whom it holds: `org`, `team:T`, `user:U` or `workspace:W`. */
export const scopePattern = /^(?:org|(?:team|user|workspace):[^\s\u0000-\u001f\u007f]{1,128})$/;
export const policyNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const longestText = 16_384;
/** Nothing that a terminal or a model would not show as it is. */
export const plainText = /^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$/;

/** From the farthest to the nearest; whoever is in several teams is nearest to the one named first. */
export function levelsOf(userId: string, teams: readonly string[], workspaceId: string | undefined): readonly string[] {
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
