import type { Directory } from '../../identity/directory.ts';
import { userCollection } from '../../identity/users.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SigningKeys } from '../for-tools/signing-keys.ts';
import { createGovernance, type Governance, type GovernanceSettings, type Person, type Preview } from './governance.ts';
import type { ObjectiveDraft, PolicyDraft } from './governed-texts.ts';
import type { People } from './in-use.ts';
import type { Declared, Objective, Policy } from './policy.ts';

export type PolicyView = Declared<Policy>;
export type ObjectiveView = Declared<Objective>;
export type { Preview };

/** Policies and objectives as an operator handles them; whatever changes is recorded. */
export interface Policies {
  list(): Promise<PolicyView[]>;
  set(draft: PolicyDraft): Promise<PolicyView>;
  /** False when there was none. */
  remove(scope: string, name: string): Promise<boolean>;
  objectives(): Promise<ObjectiveView[]>;
  addObjective(draft: ObjectiveDraft): Promise<ObjectiveView>;
  removeObjective(id: string): Promise<boolean>;
  preview(person: Person): Promise<Preview>;
}

export interface GoverningParts {
  readonly store: SessionStore;
  readonly settings: () => GovernanceSettings & { readonly users: readonly unknown[] };
  /** The address that signed blocks name as their issuer; the name of the keys without one. */
  readonly publicUrl: string | undefined;
  readonly directory: Directory;
  readonly keys: SigningKeys;
  readonly journal: Journal;
  readonly log: Log;
}

export function govern(parts: GoverningParts): { readonly governance: Governance; readonly policies: Policies } {
  const { store, settings, publicUrl, directory, keys, journal, log } = parts;
  const governance = createGovernance({
    store,
    settings,
    people: peopleOf(directory, settings, store),
    keys,
    issuer: publicUrl ?? keys.name,
    log,
    told: ({ sessionId, userId }, kind) =>
      journal.record({
        kind: 'session',
        event: kind === 'block' ? 'context-given' : 'context-noticed',
        sessionId,
        userId,
      }),
  });
  const { texts } = governance;
  const note = (event: string, facts: Readonly<Record<string, string | number | boolean>>) =>
    journal.record({ kind: 'gateway', event, ...facts });

  const policies: Policies = {
    list: () => texts.policies(),
    async set(draft) {
      const policy = await texts.setPolicy(draft);
      const { scope, name, mode, locked, enabled } = policy;
      note('policy-set', { scope, name, mode, locked, enabled });
      return policy;
    },
    async remove(scope, name) {
      const removed = await texts.removePolicy(scope, name);
      if (removed) note('policy-removed', { scope, name });
      return removed;
    },
    objectives: () => texts.objectives(),
    async addObjective(draft) {
      const objective = await texts.addObjective(draft);
      note('objective-added', { scope: objective.scope, name: objective.id });
      return objective;
    },
    async removeObjective(id) {
      const removed = await texts.removeObjective(id);
      if (removed !== undefined) note('objective-removed', { scope: removed.scope, name: id });
      return removed !== undefined;
    },
    preview: governance.preview,
  };
  return { governance, policies };
}

function peopleOf({ teamsOf }: Directory, settings: GoverningParts['settings'], { documents }: SessionStore): People {
  return {
    teamsOf,
    async any() {
      if (settings().users.length > 0) return true;
      return (await documents.list(userCollection, { limit: 1 })).documents.length > 0;
    },
    collections: [userCollection],
  };
}
