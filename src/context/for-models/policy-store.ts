import { randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import { type Document, type Documents, readAllDocuments } from '../../stores/documents.ts';
import {
  maxTextLength,
  type Objective,
  type Policy,
  plainText,
  policyNamePattern,
  scopePattern,
  type WithDeclared,
} from './policy.ts';

export const policyCollection = 'policies';
export const objectiveCollection = 'objectives';

/** Policies and objectives of the configuration, which take precedence over the store. */
interface DeclaredTexts {
  readonly policies: readonly Policy[];
  readonly objectives: readonly Omit<Objective, 'id'>[];
}

export type PolicyDraft = Pick<Policy, 'name' | 'scope' | 'mode' | 'text'> &
  Partial<Pick<Policy, 'locked' | 'enabled' | 'order'>>;
export type ObjectiveDraft = Pick<Objective, 'scope' | 'text'> & Partial<Pick<Objective, 'enabled' | 'order'>>;

/** All policies and objectives, of the configuration and of the store. Nothing is cached. */
export interface PolicyStore {
  /** Lists the policies of these scopes, or of all. */
  policies(scopes?: readonly string[]): Promise<WithDeclared<Policy>[]>;
  objectives(scopes?: readonly string[]): Promise<WithDeclared<Objective>[]>;
  hasAny(): Promise<boolean>;
  /** Replaces a policy of the same name in the same scope. */
  setPolicy(draft: PolicyDraft): Promise<WithDeclared<Policy>>;
  /** False when there was none. */
  removePolicy(scope: string, name: string): Promise<boolean>;
  addObjective(draft: ObjectiveDraft): Promise<WithDeclared<Objective>>;
  removeObjective(id: string): Promise<WithDeclared<Objective> | undefined>;
}

export function createPolicyStore(documents: Documents, declared: () => DeclaredTexts): PolicyStore {
  /** Reads stored entries. A "/" in names can make prefixes of two scopes equal, so the stored scope decides. */
  async function readStored<T extends { readonly scope: string }>(
    collection: string,
    scopes: readonly string[] | undefined,
    read: (document: Document) => T | undefined,
  ): Promise<T[]> {
    if (scopes === undefined) return parseAll(await readAllDocuments(documents, collection), read);
    const found = scopes.map(async (scope) => {
      const all = parseAll(await readAllDocuments(documents, collection, `${scope}/`), read);
      return all.filter((each) => each.scope === scope);
    });
    return (await Promise.all(found)).flat();
  }

  const isInScopes = (scopes: readonly string[] | undefined) => (each: { readonly scope: string }) =>
    scopes === undefined || scopes.includes(each.scope);

  async function putDocument(collection: string, key: string, value: object): Promise<void> {
    const { outcome } = await documents.put(collection, key, JSON.stringify({ v: 1, ...value }));
    if (outcome === 'written') return;
    throw new AmbitError('REQUEST_INVALID', { what: 'The store has no space for another policy or objective.' });
  }

  function declaredObjectives(): WithDeclared<Objective>[] {
    return declared().objectives.map((each, index) => ({ ...each, id: `file-${index + 1}`, declared: true }));
  }

  function assertNotDeclared(scope: string, name: string): void {
    if (!declared().policies.some((each) => each.scope === scope && each.name === name)) return;
    throw new AmbitError('REQUEST_INVALID', {
      what: `The policy "${name}" of ${scope} is declared in the configuration and can only be changed there.`,
      hint: 'Edit governance.policies in the configuration.',
      rule: 'governance.policies',
    });
  }

  return {
    async policies(scopes) {
      const inFile = declared().policies.filter(isInScopes(scopes));
      const declaredKeys = new Set(inFile.map(({ scope, name }) => `${scope}/${name}`));
      const others = await readStored(policyCollection, scopes, parsePolicy);
      return [
        ...inFile.map((policy) => ({ ...policy, declared: true })),
        ...others.filter(({ scope, name }) => !declaredKeys.has(`${scope}/${name}`)),
      ];
    },

    async objectives(scopes) {
      const stored = await readStored(objectiveCollection, scopes, parseObjective);
      return [
        ...declaredObjectives().filter(isInScopes(scopes)),
        ...stored.sort((a, b) => a.createdAt - b.createdAt),
      ].map(({ id, scope, text, enabled, order, declared: inFile }) => ({
        id,
        scope,
        text,
        enabled,
        order,
        declared: inFile,
      }));
    },

    async hasAny() {
      if (declared().policies.length + declared().objectives.length > 0) return true;
      const pages = await Promise.all(
        [policyCollection, objectiveCollection].map((collection) => documents.list(collection, { limit: 1 })),
      );
      return pages.some((page) => page.documents.length > 0);
    },

    async setPolicy({ name, scope, mode, text, locked = false, enabled = true, order = 0 }) {
      const policy: Policy = { name, scope, mode, text, locked, enabled, order };
      checkPolicy(policy);
      assertNotDeclared(scope, name);
      await putDocument(policyCollection, `${scope}/${name}`, policy);
      return { ...policy, declared: false };
    },

    async removePolicy(scope, name) {
      checkScope(scope);
      checkName(name);
      assertNotDeclared(scope, name);
      return (await documents.delete(policyCollection, `${scope}/${name}`)).outcome === 'deleted';
    },

    async addObjective({ scope, text, enabled = true, order = 0 }) {
      checkObjective({ scope, text, order });
      const objective: Objective = { id: `o-${randomBytes(5).toString('hex')}`, scope, text, enabled, order };
      await putDocument(objectiveCollection, `${scope}/${objective.id}`, { ...objective, createdAt: Date.now() });
      return { ...objective, declared: false };
    },

    async removeObjective(id) {
      if (declaredObjectives().some((each) => each.id === id)) {
        throw new AmbitError('REQUEST_INVALID', {
          what: `The objective "${id}" is declared in the configuration and can only be changed there.`,
          hint: 'Edit governance.objectives in the configuration.',
          rule: 'governance.objectives',
        });
      }
      const found = (await readStored(objectiveCollection, undefined, parseObjective)).find((each) => each.id === id);
      if (found === undefined) return undefined;
      const { outcome } = await documents.delete(objectiveCollection, `${found.scope}/${id}`);
      return outcome === 'deleted' ? found : undefined;
    },
  };
}

function parseAll<T>(documents: readonly Document[], read: (document: Document) => T | undefined): T[] {
  return documents.map(read).filter((each) => each !== undefined);
}

/** Skips an entry that is incomplete, because half a policy would be a different one. */
function parsePolicy({ text: json }: Document): WithDeclared<Policy> | undefined {
  const { name, scope, mode, text, locked, enabled, order } = parseObject(json);
  if (typeof name !== 'string' || typeof scope !== 'string' || typeof text !== 'string') return undefined;
  if (mode !== 'prepend' && mode !== 'append') return undefined;
  const rank = typeof order === 'number' ? order : 0;
  return { name, scope, mode, text, locked: locked === true, enabled: enabled !== false, order: rank, declared: false };
}

function parseObjective({
  text: json,
}: Document): (WithDeclared<Objective> & { readonly createdAt: number }) | undefined {
  const { id, scope, text, enabled, order, createdAt } = parseObject(json);
  if (typeof id !== 'string' || typeof scope !== 'string' || typeof text !== 'string') return undefined;
  const rank = typeof order === 'number' ? order : 0;
  const at = typeof createdAt === 'number' ? createdAt : 0;
  return { id, scope, text, enabled: enabled !== false, order: rank, declared: false, createdAt: at };
}

function parseObject(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Checks a policy from any source. Texts are read by models and shown in terminals. */
export function checkPolicy({ name, scope, mode, text, order }: Policy): void {
  checkScope(scope);
  checkName(name);
  checkText(text);
  checkOrder(order);
  if (mode !== 'prepend' && mode !== 'append') refuseRequest('The mode of a policy must be "prepend" or "append".');
}

export function checkObjective({ scope, text, order }: Pick<Objective, 'scope' | 'text' | 'order'>): void {
  checkScope(scope);
  checkText(text);
  checkOrder(order);
}

function checkScope(scope: string): void {
  if (!scopePattern.test(scope))
    refuseRequest('The scope must be "org", "team:NAME", "user:NAME" or "workspace:NAME".');
}

function checkName(name: string): void {
  if (!policyNamePattern.test(name)) {
    refuseRequest('A policy name has up to 64 letters, digits, ".", "_" and "-", and starts with a letter or digit.');
  }
}

function checkText(text: string): void {
  if (typeof text !== 'string' || text.trim() === '' || text.length > maxTextLength || !plainText.test(text)) {
    refuseRequest(
      `The text must have 1 to ${maxTextLength} characters, and no control characters except tabs and line breaks.`,
    );
  }
}

function checkOrder(order: number): void {
  if (!Number.isSafeInteger(order) || Math.abs(order) > 1_000_000) refuseRequest('The order must be a whole number.');
}

function refuseRequest(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
