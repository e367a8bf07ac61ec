import type { SessionStore } from '../../stores/store.ts';
import { objectiveCollection, policyCollection } from './policy-store.ts';

/** The people that policies are resolved for. */
export interface PeopleSource {
  teamsOf(userId: string): Promise<readonly string[]>;
  /** The collections of the store that describe them. */
  readonly collections: readonly string[];
}

/** An object that is replaced whenever policies, objectives or people change. */
export type GovernanceRevision = object;

/**
 * Knows whether there are policies or objectives. Users and teams alone do not count: they are needed for keys, too. It is
 * asked on every call, so known answers come from memory.
 */
export interface GovernanceState {
  revision(): GovernanceRevision;
  /** The known answer; undefined while it is not known. */
  isActive(): boolean | undefined;
  refresh(): Promise<boolean>;
  /** Drops what is known after a write by this process, without waiting for the change feed. */
  invalidate(): void;
  close(): void;
}

interface GovernanceStateOptions {
  readonly watch: SessionStore['watch'];
  /** Returns a new object whenever the configuration changes. */
  readonly configuration: () => object;
  readonly people: Pick<PeopleSource, 'collections'>;
  readonly hasTexts: () => Promise<boolean>;
}

export function createGovernanceState({
  watch,
  configuration,
  people,
  hasTexts,
}: GovernanceStateOptions): GovernanceState {
  let revision: GovernanceRevision = {};
  let seen = configuration();
  let active: boolean | undefined;
  const collections = new Set([policyCollection, objectiveCollection, ...people.collections]);

  function invalidate(): void {
    revision = {};
    active = undefined;
  }

  /** Drops what is known when a reload has replaced the configuration. */
  function followConfiguration(): void {
    const now = configuration();
    if (now === seen) return;
    seen = now;
    invalidate();
  }

  const stop = watch((change) => {
    if (change.kind === 'lost' || (change.kind === 'document' && collections.has(change.collection))) invalidate();
  });

  return {
    revision() {
      followConfiguration();
      return revision;
    },
    isActive() {
      followConfiguration();
      return active;
    },
    async refresh() {
      followConfiguration();
      const before = revision;
      const found = active ?? (await hasTexts());
      if (before === revision) active = found;
      return found;
    },
    invalidate,
    close: stop,
  };
}
