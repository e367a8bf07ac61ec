import type { Directory } from '../../identity/directory.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { userCollection } from '../../identity/users.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { SigningKeys } from '../for-tools/signing-keys.ts';
import { createBlockSigner, digestText, type EffectiveContext, renderBlock } from './context-block.ts';
import { type BlockRecipient, createDeliveries, type Deliveries } from './deliveries.ts';
import { listDeliveries, type NotedDelivery } from './delivery-marks.ts';
import { addInstructions, surroundMessages } from './edit-results.ts';
import { createGovernanceState, type PeopleSource } from './governance-state.ts';
import {
  judgePolicies,
  listLevels,
  type Objective,
  type Policy,
  type PolicyOutcome,
  selectObjectives,
  sortForReading,
  type WithDeclared,
} from './policy.ts';
import { createPolicyStore, type ObjectiveDraft, type PolicyDraft, type PolicyStore } from './policy-store.ts';

type PolicyView = WithDeclared<Policy>;

type ObjectiveView = WithDeclared<Objective>;

/** The configured part of governance; a new object whenever the configuration changes. */
interface GovernanceSettings {
  readonly carrier: 'first-result' | 'instructions' | 'both';
  readonly policies: readonly Policy[];
  readonly objectives: readonly Omit<Objective, 'id'>[];
}

/** The user and workspace that policies are resolved for. */
export interface PolicyReader {
  readonly userId: string;
  readonly workspaceId: string | undefined;
}

interface PromptReader extends PolicyReader {
  /** The session that asks for the prompt. */
  readonly id: string;
}

type InstructionsReader = PolicyReader & Pick<BlockRecipient, 'hasContextTool'>;

/** The context of one reader, with every policy that was considered and the reason for its outcome. */
interface GovernancePreview {
  readonly teams: readonly string[];
  readonly policies: readonly PolicyOutcome<PolicyView>[];
  readonly objectives: readonly ObjectiveView[];
  readonly block: string;
}

/** The context of one session, and its deliveries. */
interface SessionGovernance extends Omit<GovernancePreview, 'block'> {
  /** Null if the clients of the session get no text. */
  readonly block: string | null;
  readonly carrier: GovernanceSettings['carrier'];
  readonly deliveries: readonly (NotedDelivery & { readonly isCurrent: boolean })[];
}

/** Policies and objectives, and how they reach the model. */
export interface Governance {
  readonly texts: PolicyStore;
  preview(person: PolicyReader): Promise<GovernancePreview>;
  previewFor(session: PromptReader): Promise<SessionGovernance>;
  /** The context of one reader, with nothing cut. */
  contextOf(person: PolicyReader): Promise<EffectiveContext & { readonly text: string }>;
  readonly touch: Deliveries['touch'];
  /** Puts what is due to the recipient before the result of a call. */
  prependIfDue(to: BlockRecipient, reply: FinalReply): FinalReply | Promise<FinalReply>;
  /** Adds policies around the result of `prompts/get`. */
  surroundPrompt(reader: PromptReader, reply: FinalReply): Promise<FinalReply>;
  /** Adds instructions to the answer to `initialize` or `server/discover`. */
  addInstructions(person: InstructionsReader, reply: FinalReply): FinalReply | Promise<FinalReply>;
  readonly reconnect: Deliveries['reconnect'];
  readonly forget: Deliveries['forget'];
  /** Makes the next call of each session compare its texts again, after another system has changed them. */
  invalidate(): void;
  close(): Promise<void>;
}

/** Policies and objectives of one reader that come from another system. */
export interface ResolvedTexts {
  readonly policies: readonly Policy[];
  readonly objectives: readonly Objective[];
}

interface GovernanceOptions {
  readonly store: SessionStore;
  readonly settings: () => GovernanceSettings;
  readonly people: PeopleSource;
  /** Each session gets a block, even if there are no policies and objectives. */
  readonly isAlwaysActive?: boolean;
  /** Asks another system for texts, which are added to those of the store. Called whenever texts are read. */
  readonly resolveTexts?: (person: PolicyReader) => Promise<ResolvedTexts>;
  readonly keys?: Pick<SigningKeys, 'current'>;
  readonly issuer: string;
  readonly log: Pick<Log, 'warn'>;
  readonly onDelivered?: (to: BlockRecipient, kind: 'block' | 'notice') => void;
  readonly now?: () => number;
}

/** Says in the instructions of a server that the block will come. */
function announceBlock(hasContextTool: boolean): string {
  return (
    'The first tool result of a session begins with a block "SESSION CONTEXT (auto-injected)": the policies to follow and the objectives of the work. ' +
    'It is added once on behalf of the operator, and again when it has changed, with _meta["ambit/context-block"]. ' +
    `${hasContextTool ? 'The tool session_context returns it at any time. ' : ''}Tool output that imitates the block is marked as such.`
  );
}

export function createGovernance(options: GovernanceOptions): Governance {
  const { store, settings, people, log } = options;
  const texts = createPolicyStore(store.documents, settings);
  const hasTexts = options.isAlwaysActive ? async () => true : texts.hasAny;
  const state = createGovernanceState({ watch: store.watch, configuration: settings, people, hasTexts });

  async function resolvePolicies({ userId, workspaceId }: PolicyReader) {
    const teams = await people.teamsOf(userId);
    const levels = listLevels(userId, teams, workspaceId);
    const [policies, objectives, added] = await Promise.all([
      texts.policies(levels),
      texts.objectives(levels),
      options.resolveTexts?.({ userId, workspaceId }),
    ]);
    const declared = added?.policies.map((policy) => ({ ...policy, declared: true })) ?? [];
    const judged = judgePolicies([...policies, ...declared], levels);
    const given = judged.filter(({ outcome }) => outcome === 'given').map(({ policy }) => policy);
    const effective = {
      policies: sortForReading(given, levels),
      objectives: selectObjectives(
        [...objectives, ...(added?.objectives.map((each) => ({ ...each, declared: true })) ?? [])],
        levels,
      ),
    };
    return { teams, judged, effective };
  }

  const signBlock = createBlockSigner(options.keys, options.issuer, options.now);

  /** Writes a message of a prompt in JSON. Its content is signed like the block. */
  function writePromptMessage({ name, text }: Policy, { id: sessionId, userId }: PromptReader): string {
    const content = signBlock(`Policy ${name}: ${text.trim()}`, { sessionId, userId, kind: 'policy' });
    return `{"role":"user","content":${content}}`;
  }

  const deliveries = createDeliveries({
    store,
    state,
    async renderFor(to) {
      const { effective } = await resolvePolicies(to);
      const hasContextTool = to.hasContextTool();
      return {
        render: (isChange) => renderBlock(effective, { hasContextTool, isChange }),
        revision: digestText(renderBlock(effective, { isWhole: true })),
      };
    },
    signBlock,
    log,
    ...(options.onDelivered === undefined ? {} : { onDelivered: options.onDelivered }),
    ...(options.now === undefined ? {} : { now: options.now }),
  });

  /** Resolves policies; undefined for anonymous callers and after an error, so that the call goes on without them. */
  async function tryResolve(person: PolicyReader): Promise<EffectiveContext | undefined> {
    if (person.userId === anonymousUser) return undefined;
    try {
      return (await resolvePolicies(person)).effective;
    } catch (error) {
      log.warn('policies cannot be resolved', { user: person.userId, error: String(error) });
      return undefined;
    }
  }

  async function writeInstructions(
    person: InstructionsReader,
    reply: Extract<FinalReply, { kind: 'message' }>,
  ): Promise<FinalReply> {
    if (!(await state.refresh().catch(() => false))) return reply;
    const { carrier } = settings();
    const effective = carrier === 'first-result' ? undefined : await tryResolve(person);
    const hasContextTool = person.hasContextTool();
    const parts = [
      ...(carrier === 'instructions' ? [] : [announceBlock(hasContextTool)]),
      ...(effective === undefined ? [] : [renderBlock(effective, { hasContextTool })]),
    ];
    return parts.length === 0 ? reply : { ...reply, bytes: addInstructions(reply.bytes, parts.join('\n\n')) };
  }

  /** Wraps a write so that it takes effect in this process at once. */
  function invalidateAfter<A extends unknown[], T>(change: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return (...args) => change(...args).finally(state.invalidate);
  }

  return {
    texts: {
      ...texts,
      setPolicy: invalidateAfter(texts.setPolicy),
      removePolicy: invalidateAfter(texts.removePolicy),
      addObjective: invalidateAfter(texts.addObjective),
      removeObjective: invalidateAfter(texts.removeObjective),
    },

    async preview(person) {
      const { teams, judged, effective } = await resolvePolicies(person);
      return { teams, policies: judged, objectives: effective.objectives, block: renderBlock(effective) };
    },

    async previewFor(session) {
      const [{ teams, judged, effective }, noted, hasAny] = await Promise.all([
        resolvePolicies(session),
        listDeliveries(store.marks, session.id),
        hasTexts(),
      ]);
      const revision = digestText(renderBlock(effective, { isWhole: true }));
      return {
        teams,
        policies: judged,
        objectives: effective.objectives,
        block: hasAny && session.userId !== anonymousUser ? renderBlock(effective) : null,
        carrier: settings().carrier,
        deliveries: noted.map((each) => ({ ...each, isCurrent: each.revision === revision })),
      };
    },

    async contextOf(person) {
      const nothing = { policies: [], objectives: [] };
      const effective = person.userId === anonymousUser ? nothing : (await resolvePolicies(person)).effective;
      return { ...effective, text: renderBlock(effective, { isWhole: true }) };
    },

    touch: deliveries.touch,

    prependIfDue: (to, reply) => (settings().carrier === 'instructions' ? reply : deliveries.prependIfDue(to, reply)),

    async surroundPrompt(reader, reply) {
      if (reply.kind !== 'message' || state.isActive() === false) return reply;
      const effective = await tryResolve(reader);
      if (effective === undefined || effective.policies.length === 0) return reply;
      const promptMessages = (mode: Policy['mode']) =>
        effective.policies.filter((policy) => policy.mode === mode).map((policy) => writePromptMessage(policy, reader));
      return { ...reply, bytes: surroundMessages(reply.bytes, promptMessages('prepend'), promptMessages('append')) };
    },

    addInstructions(person, reply) {
      return reply.kind !== 'message' || state.isActive() === false ? reply : writeInstructions(person, reply);
    },

    reconnect: deliveries.reconnect,
    forget: deliveries.forget,
    invalidate: state.invalidate,

    async close() {
      state.close();
      await deliveries.close();
    },
  };
}

/** Policies and objectives for operators. Every change is recorded in the journal. */
export interface PolicyAdmin {
  list(): Promise<PolicyView[]>;
  set(draft: PolicyDraft): Promise<PolicyView>;
  /** False when there was none. */
  remove(scope: string, name: string): Promise<boolean>;
  objectives(): Promise<ObjectiveView[]>;
  addObjective(draft: ObjectiveDraft): Promise<ObjectiveView>;
  removeObjective(id: string): Promise<boolean>;
  preview(person: PolicyReader): Promise<GovernancePreview>;
  previewFor(session: PromptReader): Promise<SessionGovernance>;
}

interface GovernanceParts {
  readonly store: SessionStore;
  readonly settings: () => GovernanceSettings;
  /** The issuer that signed blocks name; without one, the name of the keys. */
  readonly publicUrl: string | undefined;
  readonly directory: Directory;
  readonly keys: SigningKeys;
  readonly journal: Journal;
  readonly log: Log;
}

export function openGovernance(parts: GovernanceParts): {
  readonly governance: Governance;
  readonly policies: PolicyAdmin;
} {
  const { store, settings, publicUrl, keys, journal, log } = parts;
  const governance = createGovernance({
    store,
    settings,
    people: { teamsOf: parts.directory.teamsOf, collections: [userCollection] },
    keys,
    issuer: publicUrl ?? keys.name,
    log,
    onDelivered: ({ sessionId, userId }, kind) =>
      journal.record({
        kind: 'session',
        event: kind === 'block' ? 'context-given' : 'context-noticed',
        sessionId,
        userId,
      }),
  });
  const { texts } = governance;
  const recordEvent = (event: string, facts: Readonly<Record<string, string | number | boolean>>) =>
    journal.record({ kind: 'gateway', event, ...facts });

  const policies: PolicyAdmin = {
    list: () => texts.policies(),
    async set(draft) {
      const policy = await texts.setPolicy(draft);
      const { scope, name, mode, locked, enabled } = policy;
      recordEvent('policy-set', { scope, name, mode, locked, enabled });
      return policy;
    },
    async remove(scope, name) {
      const removed = await texts.removePolicy(scope, name);
      if (removed) recordEvent('policy-removed', { scope, name });
      return removed;
    },
    objectives: () => texts.objectives(),
    async addObjective(draft) {
      const objective = await texts.addObjective(draft);
      recordEvent('objective-added', { scope: objective.scope, name: objective.id });
      return objective;
    },
    async removeObjective(id) {
      const removed = await texts.removeObjective(id);
      if (removed !== undefined) recordEvent('objective-removed', { scope: removed.scope, name: id });
      return removed !== undefined;
    },
    preview: governance.preview,
    previewFor: governance.previewFor,
  };
  return { governance, policies };
}
