import type { SessionStore } from '../../stores/store.ts';
import { objectiveCollection, policyCollection } from './policy-store.ts';

/** Which people there are; policies ask no more of them. */
export interface People {
  teamsOf(userId: string): Promise<readonly string[]>;
  any(): Promise<boolean>;
  /** Where in the store they are written. */
  readonly collections: readonly string[];
}

/** What stays the same until something is written that policies, objectives or people are made of. */
export type Edition = object;

/** Whether there is anything to govern by; asked on every call, so what is known is answered at once. */
export interface InUse {
  edition(): Edition;
  /** Undefined while it is not known. */
  known(): boolean | undefined;
  look(): Promise<boolean>;
  /** Something was written here: nobody waits for the feed to tell of it. */
  changed(): void;
  close(): void;
}

export interface InUseOptions {
  readonly watch: SessionStore['watch'];
  /** Another object when the configuration is another. */
  readonly configuration: () => object;
  readonly people: People;
  readonly anyText: () => Promise<boolean>;
}

export function createInUse({ watch, configuration, people, anyText }: InUseOptions): InUse {
  let edition: Edition = {};
  let seen = configuration();
  let used: boolean | undefined;
  const collections = new Set([policyCollection, objectiveCollection, ...people.collections]);

  function changed(): void {
    edition = {};
    used = undefined;
  }

  /** A reload puts another configuration in place. */
  function follow(): void {
    const now = configuration();
    if (now === seen) return;
    seen = now;
    changed();
  }

  const stop = watch((change) => {
    if (change.kind === 'lost' || (change.kind === 'document' && collections.has(change.collection))) changed();
  });

  return {
    edition() {
      follow();
      return edition;
    },
    known() {
      follow();
      return used;
    },
    async look() {
      follow();
      const asked = edition;
      const found = used ?? ((await anyText()) || (await people.any()));
      if (asked === edition) used = found;
      return found;
    },
    changed,
    close: stop,
  };
}
