import type { SessionStore } from '../../stores/store.ts';
import { objectiveCollection, policyCollection } from './policy-store.ts';

/** Which people there are; policies ask no more of them. */
export interface PeopleSource {
  teamsOf(userId: string): Promise<readonly string[]>;
  any(): Promise<boolean>;
  /** Where in the store they are written. */
  readonly collections: readonly string[];
}

/** What stays the same until something is written that policies, objectives or people are made of. */
export type GovernanceRevision = object;

/** Whether there is anything to govern by; asked on every call, so what is known is answered at once. */
export interface GovernanceState {
  revision(): GovernanceRevision;
  /** Undefined while it is not known. */
  isActive(): boolean | undefined;
  refresh(): Promise<boolean>;
  /** Something was written here: nobody waits for the feed to tell of it. */
  invalidate(): void;
  close(): void;
}

export interface GovernanceStateOptions {
  readonly watch: SessionStore['watch'];
  /** Another object when the configuration is another. */
  readonly configuration: () => object;
  readonly people: PeopleSource;
  readonly anyText: () => Promise<boolean>;
}

export function createGovernanceState({
  watch,
  configuration,
  people,
  anyText,
}: GovernanceStateOptions): GovernanceState {
  let revision: GovernanceRevision = {};
  let seen = configuration();
  let active: boolean | undefined;
  const collections = new Set([policyCollection, objectiveCollection, ...people.collections]);

  function invalidate(): void {
    revision = {};
    active = undefined;
  }

  /** A reload puts another configuration in place. */
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
      const asked = revision;
      const found = active ?? ((await anyText()) || (await people.any()));
      if (asked === revision) active = found;
      return found;
    },
    invalidate,
    close: stop,
  };
}
