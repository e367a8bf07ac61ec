import type { ConfiguredWorkspace } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import type { KeyView } from '../../identity/key-record.ts';
import { isTrustAtMost } from '../../rules/trust-level.ts';
import type { TrustBound } from '../../sessions/trust-bounds.ts';
import type { Limits } from '../../stores/admission.ts';
import type { JsonValue, SessionRecord } from '../../stores/record.ts';

/** A value of a session, its source in words, and what limits it now. */
export interface SourcedValue {
  readonly name: string;
  readonly value: JsonValue;
  readonly source: string;
  readonly limits: readonly string[];
}

/** Everything that the values of a session are explained with. */
export interface ContextFacts {
  readonly record: SessionRecord;
  readonly config: Config;
  readonly parent: SessionRecord | undefined;
  /** The API key that the session was opened with, if Ambit keeps it. */
  readonly key: KeyView | undefined;
  readonly workspace: ConfiguredWorkspace | undefined;
  /** The folder that the session works in. */
  readonly folder: string | undefined;
  readonly hasOwnFolder: boolean;
  /** The bound of `sessions.allowDirect`. */
  readonly direct: TrustBound;
}

const notRecorded = 'not recorded';
const notGiven = 'not given';
const restrictedLater = 'restricted after the session was opened';

export const shortenId = (id: string): string => id.slice(0, 8);

const nameKey = ({ keyId }: SessionRecord) => `API key ${keyId === null ? '' : shortenId(keyId)}`.trim();
const nameParent = ({ parentId }: SessionRecord) => `parent session ${shortenId(parentId ?? '')}`;

/** Names who opened a session, as a phrase. */
export function describeOpener(record: SessionRecord): string {
  switch (record.origin?.by) {
    case 'control-api':
      return 'control API';
    case 'key':
      return nameKey(record);
    case 'access-token':
      return `access token of ${record.userId}`;
    case 'anonymous':
      return 'caller without a credential';
    case 'stdio':
      return 'command "ambit stdio" or "ambit run"';
    case 'library':
      return 'program that contains the gateway';
    case 'session':
      return nameParent(record);
    default:
      return notRecorded;
  }
}

/** Lists the values of a session in the order in which people ask for them. */
export function listSourcedValues(facts: ContextFacts): SourcedValue[] {
  return [...listIdentity(facts), ...listRights(facts), ...listLifetime(facts), ...listQuotas(facts)];
}

/** Finds the source of a value: a later restriction, the opener that gave it, or what stands for it otherwise. */
function findSource({ record }: ContextFacts, name: string, otherwise: string, given = describeOpener(record)): string {
  const { origin } = record;
  if (!origin) return notRecorded;
  if (origin.restricted.includes(name)) return restrictedLater;
  return origin.given.includes(name) ? given : otherwise;
}

/** Whether a caller opened the session by calling, so that its credential and not the caller gave the values. */
function isOpenedByCall({ record: { origin } }: ContextFacts): boolean {
  return origin?.by === 'key' || origin?.by === 'access-token' || origin?.by === 'anonymous';
}

function listIdentity(facts: ContextFacts): SourcedValue[] {
  const { record, key, parent, workspace, folder, hasOwnFolder } = facts;
  const opener = describeOpener(record);
  const inherited = record.parentId === null ? notGiven : nameParent(record);
  const byCall = isOpenedByCall(facts);
  const { workspaceId } = record;
  const keyWorkspaces = key?.workspaces ?? undefined;
  const folderSource = hasOwnFolder
    ? 'Ambit: own folder of the session'
    : `configuration: workspaces.${workspaceId}.path`;
  return [
    { name: 'id', value: record.id, source: findSource(facts, 'id', 'Ambit: random id'), limits: [] },
    {
      name: 'name',
      value: record.name,
      source: findSource(facts, 'name', notGiven, byCall ? 'Ambit: name for sessions of this credential' : opener),
      limits: [],
    },
    {
      name: 'userId',
      value: record.userId,
      source: findSource(facts, 'userId', record.parentId === null ? 'Ambit: default user' : nameParent(record)),
      limits: [],
    },
    { name: 'agentId', value: record.agentId, source: findSource(facts, 'agentId', notGiven), limits: [] },
    {
      name: 'workspaceId',
      value: workspaceId,
      source: findSource(facts, 'workspaceId', inherited, byCall ? `client with the ${opener}` : opener),
      limits: keyWorkspaces === undefined ? [] : [`${nameKey(record)} allows only: ${keyWorkspaces.join(', ')}.`],
    },
    {
      name: 'workspacePath',
      value: folder ?? null,
      source: workspaceId === null ? 'no workspace' : workspace === undefined ? 'no longer configured' : folderSource,
      limits: [],
    },
    {
      name: 'parentId',
      value: record.parentId,
      source: record.parentId === null ? 'no parent' : opener,
      limits:
        parent === undefined
          ? []
          : ['The session cannot exceed the limits of its parent, also draws from its quotas, and ends with it.'],
    },
    { name: 'task', value: record.task ?? null, source: findSource(facts, 'task', notGiven), limits: [] },
  ];
}

function listRights(facts: ContextFacts): SourcedValue[] {
  const { record, config, key, parent, workspace } = facts;
  const { trustLevel, permissions, servers } = record;
  const { defaultTrust } = config.sessions;
  const lowered = trustLevel === defaultTrust ? '' : ', lowered by a limit';
  const alwaysSandboxed = 'Ambit: callers without a credential are sandboxed';
  const trustSource = findSource(
    facts,
    'trustLevel',
    `configuration: sessions.defaultTrust${lowered}`,
    record.origin?.by === 'anonymous' ? alwaysSandboxed : undefined,
  );
  const parentPermissions = parent && `The parent session has ${parent.permissions.join(', ') || 'none'}.`;
  const scopes = key?.scopes ?? undefined;
  const keyScopes = scopes && `${nameKey(record)} allows only: ${scopes.join(', ') || 'none'}.`;
  const fromParent = parent?.servers ?? undefined;
  const allowed = workspace?.capabilities.servers ?? 'all';
  const inWorkspace = typeof allowed === 'string' ? allowed : allowed.join(', ');
  return [
    { name: 'trustLevel', value: trustLevel, source: trustSource, limits: listTrustLimits(facts) },
    {
      name: 'permissions',
      value: [...permissions],
      source: findSource(facts, 'permissions', notGiven),
      limits: [parentPermissions, keyScopes].filter((each) => each !== undefined),
    },
    {
      name: 'servers',
      value: servers === null ? null : [...servers],
      source: findSource(facts, 'servers', fromParent === undefined ? 'not limited' : nameParent(record)),
      limits: [
        ...(fromParent === undefined ? [] : [`The parent session may use only: ${fromParent.join(', ') || 'none'}.`]),
        ...(allowed === 'all'
          ? []
          : [`Workspace ${record.workspaceId} allows only: ${inWorkspace} (workspaces.*.capabilities.servers).`]),
      ],
    },
  ];
}

/** Lists the limits of the trust level, each as a sentence with the rule that sets it. */
function listTrustLimits({ record, key, parent, workspace, direct }: ContextFacts): string[] {
  const { workspaceId } = record;
  const keyMax = key?.trustLevel ?? 'direct';
  const bounds = [
    { who: `Workspace ${workspaceId}`, max: workspace?.trust ?? 'direct', rule: `workspaces.${workspaceId}.trust` },
    { who: 'The parent session', max: parent?.trustLevel ?? 'direct', rule: 'parent.trustLevel' },
    { who: `The ${nameKey(record)}`, max: keyMax, rule: 'key.trustLevel' },
    { who: 'This gateway', ...direct },
  ] satisfies (TrustBound & { readonly who: string })[];
  return bounds
    .filter(({ max }) => !isTrustAtMost('direct', max))
    .map(({ who, max, rule }) => `${who} allows at most ${max} (${rule}).`);
}

function listLifetime(facts: ContextFacts): SourcedValue[] {
  const { record, config, parent } = facts;
  const { ttlSeconds, endsAt, createdAt } = record;
  const { ttlSeconds: defaultTtl, maxLifetimeSeconds } = config.sessions;
  const isParentTtl = parent !== undefined && ttlSeconds !== defaultTtl;
  const isParentEnd = parent !== undefined && endsAt - createdAt < maxLifetimeSeconds * 1000;
  return [
    {
      name: 'ttlSeconds',
      value: ttlSeconds,
      source: findSource(facts, 'ttlSeconds', isParentTtl ? nameParent(record) : 'configuration: sessions.ttlSeconds'),
      limits: parent === undefined ? [] : [`The parent session expires after ${parent.ttlSeconds} s without a call.`],
    },
    {
      name: 'endsAt',
      value: new Date(endsAt).toISOString(),
      source: isParentEnd ? nameParent(record) : 'configuration: sessions.maxLifetimeSeconds',
      limits: parent === undefined ? [] : [`The parent session ends by ${new Date(parent.endsAt).toISOString()}.`],
    },
  ];
}

const limitNames = ['callsPerMinute', 'burst', 'concurrentCalls', 'totalCalls', 'totalBytes'] as const;

/** Lists the quotas that count for the session. The lower one of its own and the configured one does. */
function listQuotas(facts: ContextFacts): SourcedValue[] {
  const { record, config, parent } = facts;
  const { session, user, workspace } = config.quotas as Readonly<Record<string, Limits>>;
  return limitNames.map((name) => {
    const [own, configured, ofParent] = [record.quotas?.[name], session?.[name], parent?.quotas?.[name]];
    const isOwn = own !== undefined && own <= (configured ?? Number.POSITIVE_INFINITY);
    const ownSource = own === ofParent ? nameParent(record) : findSource(facts, 'quotas', notGiven);
    const configuredSource = configured === undefined ? 'not limited' : `configuration: quotas.session.${name}`;
    const shared = [
      ['user', user?.[name]],
      ['workspace', workspace?.[name]],
    ] as const;
    return {
      name: `quotas.${name}`,
      value: (isOwn ? own : configured) ?? null,
      source: isOwn ? ownSource : configuredSource,
      limits: shared
        .filter(([scope, limit]) => limit !== undefined && (scope === 'user' || record.workspaceId !== null))
        .map(([scope, limit]) => `All sessions of the ${scope} together: at most ${limit} (quotas.${scope}.${name}).`),
    };
  });
}
