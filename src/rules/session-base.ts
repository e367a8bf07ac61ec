import type { TrustLevel } from './trust-level.ts';

/** The pattern of permissions. A permission is held exactly or not at all: it has no wildcards. */
export const permissionPattern = /^[a-z0-9*][a-z0-9:._*-]{0,127}$/;
export const maxPermissions = 100;

/**
 * The part of a session that decides what it may do. All other types of a session derive from this one: the record in a
 * store adds its life cycle, and each view picks from the record.
 */
export interface SessionBase {
  readonly id: string;
  readonly userId: string;
  readonly agentId: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: TrustLevel;
  readonly permissions: readonly string[];
  /** The only servers it may use; null if it is not limited. An empty list means none. */
  readonly servers: readonly string[] | null;
}

/** A type as a process holds it in memory: undefined where a store has null. */
export type Loaded<T> = {
  readonly [Key in keyof T]: null extends T[Key] ? Exclude<T[Key], null> | undefined : T[Key];
};

export type Optional<T> = { readonly [Key in keyof T]?: T[Key] | undefined };

export type NonNull<T> = { readonly [Key in keyof T]: NonNullable<T[Key]> };

/** The session that a call acts for. */
export interface ActingSession extends Loaded<Omit<SessionBase, 'servers'>> {}

/** The part of a session that a rule can read. An absent value is an empty text. */
export interface SessionClaims extends NonNull<Omit<SessionBase, 'servers'>> {}
