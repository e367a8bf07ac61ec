import type { TrustLevel } from './trust-level.ts';

/** What a permission is called. It is held exactly or not at all: no character in it stands for others. */
export const permissionName = /^[a-z0-9*][a-z0-9:._*-]{0,127}$/;

export const mostPermissions = 100;

/**
 * The part of a session that decides what it may do. All other shapes of a session are derived from this one: the record
 * in a store adds its life to it, and each view picks from the record.
 */
export interface SessionBase {
  readonly id: string;
  readonly userId: string;
  readonly agentId: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: TrustLevel;
  /** What it may do, by name. */
  readonly permissions: readonly string[];
  /** The only servers it may use; null when it is not limited to some. An empty list means none at all. */
  readonly servers: readonly string[] | null;
}

/** A shape as a process holds it in memory: undefined where a store has null. */
export type Loaded<T> = {
  readonly [Key in keyof T]: null extends T[Key] ? Exclude<T[Key], null> | undefined : T[Key];
};

/** A shape of which anything may be left out. */
export type Optional<T> = { readonly [Key in keyof T]?: T[Key] | undefined };

/** A shape in which nothing is null. */
export type NonNull<T> = { readonly [Key in keyof T]: NonNullable<T[Key]> };

/** The session that a call acts for. */
export interface ActingSession extends Loaded<Omit<SessionBase, 'servers'>> {}

/** The part of a session that a rule can read. Nothing is ever missing: an absent value is an empty text. */
export interface SessionClaims extends NonNull<Omit<SessionBase, 'servers'>> {}
