import type { Directory } from '../../identity/directory.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { userCollection } from '../../identity/users.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Reply } from '../../protocol/channel.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SigningKeys } from '../for-tools/signing-keys.ts';
import { blockText, createBlockSigner, type Effective, noticeText, revisionOf } from './context-block.ts';
import { createDeliveries, type Deliveries, type Recipient } from './deliveries.ts';
import { withInstructions, withMessagesAround } from './edit-results.ts';
import { createInUse, type People } from './governance-state.ts';
import {
  type Declared,
  effectiveObjectives,
  inReadingOrder,
  type Judged,
  judgePolicies,
  levelsOf,
  type Objective,
  type Policy,
} from './policy.ts';
import { createGovernedTexts, type GovernedTexts, type ObjectiveDraft, type PolicyDraft } from './policy-store.ts';

type PolicyView = Declared<Policy>;

type ObjectiveView = Declared<Objective>;

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

interface GoverningParts {
  readonly store: SessionStore;
  readonly settings: () => GovernanceSettings & { readonly users: readonly unknown[] };
  /** The address that signed blocks name as their issuer; the name of the keys without one. */
  readonly publicUrl: string | undefined;
  readonly directory: Directory;
  readonly keys: SigningKeys;
  readonly journal: Journal;
  readonly log: Log;
}

/** What the configuration says; another object when it is another. */
export interface GovernanceSettings {
  readonly carrier: 'first-result' | 'instructions' | 'both';
  readonly policies: readonly Policy[];
  readonly objectives: readonly Omit<Objective, 'id'>[];
}

/** Whom something is resolved for. */
export interface Person {
  readonly userId: string;
  readonly workspaceId: string | undefined;
}

/** What somebody gets, and why, with all that was weighed. */
export interface Preview {
  readonly teams: readonly string[];
  readonly policies: readonly Judged<Declared<Policy>>[];
  readonly objectives: readonly Declared<Objective>[];
  readonly block: string;
}

/** What somebody is given at any time, with nothing cut. */
export interface Given extends Effective {
  readonly text: string;
}

/** Policies and objectives, and how they reach the model. */
export interface Governance {
  readonly texts: GovernedTexts;
  preview(person: Person): Promise<Preview>;
  contextOf(person: Person): Promise<Given>;
  readonly arrived: Deliveries['arrived'];
  /** The result of a call, with what is due to its recipient before it. */
  carry(to: Recipient, reply: Reply): Reply | Promise<Reply>;
  readonly take: Deliveries['take'];
  /** The result of `prompts/get`, with policies around it. */
  aroundPrompt(reader: Person & { readonly id: string }, reply: Reply): Promise<Reply>;
  /** The answer to `initialize` or `server/discover`, which says what will come. */
  announced(person: Person, reply: Reply): Reply | Promise<Reply>;
  readonly forget: Deliveries['forget'];
  close(): Promise<void>;
}

export interface GovernanceOptions {
  readonly store: SessionStore;
  readonly settings: () => GovernanceSettings;
  readonly people: People;
  /** Absent where there are none to sign with. */
  readonly keys?: Pick<SigningKeys, 'current'>;
  readonly issuer: string;
  readonly log: Pick<Log, 'warn'>;
  readonly told?: (to: Recipient, kind: 'block' | 'notice') => void;
  readonly now?: () => number;
}

const willCome =
  'The first tool result of a session begins with a block "SESSION CONTEXT (auto-injected)": the policies to keep to and the objectives of the work. ' +
  'It comes from the operator through Ambit, carries _meta["ambit/context-block"], and comes once; session_context returns it at any time. Text of a tool that looks like it is marked as such.';

export function createGovernance(options: GovernanceOptions): Governance {
  const { store, settings, people, log } = options;
  const texts = createGovernedTexts(store.documents, settings);
  const inUse = createInUse({ watch: store.watch, configuration: settings, people, anyText: texts.any });

  async function weighed({ userId, workspaceId }: Person) {
    const teams = await people.teamsOf(userId);
    const levels = levelsOf(userId, teams, workspaceId);
    const [policies, objectives] = await Promise.all([texts.policies(levels), texts.objectives(levels)]);
    const judged = judgePolicies(policies, levels);
    const given = judged.filter(({ outcome }) => outcome === 'given').map(({ policy }) => policy);
    const effective = {
      policies: inReadingOrder(given, levels),
      objectives: effectiveObjectives(objectives, levels),
    };
    return { teams, judged, effective };
  }

  const sign = createBlockSigner(options.keys, options.issuer, options.now);

  /** A message of a prompt, in JSON; its content can be proven like the block. */
  function messageOf({ name, text }: Policy, { id: sessionId, userId }: Person & { readonly id: string }): string {
    const content = sign(`Policy ${name}: ${text.trim()}`, { sessionId, userId, kind: 'policy' });
    return `{"role":"user","content":${content}}`;
  }

  const deliveries = createDeliveries({
    store,
    inUse,
    async sayTo(to) {
      const { effective } = await weighed(to);
      const revision = revisionOf(blockText(effective, true));
      return { block: blockText(effective), notice: noticeText(), revision };
    },
    sign,
    log,
    ...(options.told === undefined ? {} : { told: options.told }),
    ...(options.now === undefined ? {} : { now: options.now }),
  });

  /** Undefined where there is nobody to resolve them for, or it cannot be done: the call goes on without. */
  async function effectiveFor(person: Person): Promise<Effective | undefined> {
    if (person.userId === anonymousUser) return undefined;
    try {
      return (await weighed(person)).effective;
    } catch (error) {
      log.warn('policies cannot be resolved', { user: person.userId, error: String(error) });
      return undefined;
    }
  }

  async function instructed(person: Person, reply: Extract<Reply, { kind: 'message' }>): Promise<Reply> {
    const used = await inUse.look().catch(() => false);
    if (!used) return reply;
    const { carrier } = settings();
    const effective = carrier === 'first-result' ? undefined : await effectiveFor(person);
    const words = [
      ...(carrier === 'instructions' ? [] : [willCome]),
      ...(effective === undefined ? [] : [blockText(effective)]),
    ];
    return words.length === 0 ? reply : { ...reply, bytes: withInstructions(reply.bytes, words.join('\n\n')) };
  }

  /** Whatever is written here holds here at once. */
  function noticed<A extends unknown[], T>(change: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return (...args) => change(...args).finally(inUse.changed);
  }

  return {
    texts: {
      ...texts,
      setPolicy: noticed(texts.setPolicy),
      removePolicy: noticed(texts.removePolicy),
      addObjective: noticed(texts.addObjective),
      removeObjective: noticed(texts.removeObjective),
    },

    async preview(person) {
      const { teams, judged, effective } = await weighed(person);
      return { teams, policies: judged, objectives: effective.objectives, block: blockText(effective) };
    },

    async contextOf(person) {
      const nothing = { policies: [], objectives: [] };
      const effective = person.userId === anonymousUser ? nothing : (await weighed(person)).effective;
      return { ...effective, text: blockText(effective, true) };
    },

    arrived: deliveries.arrived,

    carry: (to, reply) => (settings().carrier === 'instructions' ? reply : deliveries.carry(to, reply)),

    take: deliveries.take,

    async aroundPrompt(reader, reply) {
      if (reply.kind !== 'message' || inUse.known() === false) return reply;
      const effective = await effectiveFor(reader);
      if (effective === undefined || effective.policies.length === 0) return reply;
      const said = (mode: Policy['mode']) =>
        effective.policies.filter((policy) => policy.mode === mode).map((policy) => messageOf(policy, reader));
      return { ...reply, bytes: withMessagesAround(reply.bytes, said('prepend'), said('append')) };
    },

    announced(person, reply) {
      return reply.kind !== 'message' || inUse.known() === false ? reply : instructed(person, reply);
    },

    forget: deliveries.forget,

    async close() {
      inUse.close();
      await deliveries.close();
    },
  };
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
