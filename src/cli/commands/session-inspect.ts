import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, type Invocation, jsonFlag, readFlag, requirePositional, UsageError } from '../command.ts';
import { controlRequest } from '../io/control-request.ts';
import { findTextWidth, paintText, printData, relativeTime, renderPairs, renderTable, wrapText } from '../io/output.ts';

type ContextAnswer = AnswerOf<'GET /api/v1/sessions/{id}/context'>;
type PoliciesAnswer = AnswerOf<'GET /api/v1/sessions/{id}/policies'>;
type StateAnswer = AnswerOf<'GET /api/v1/sessions/{id}/state'>;
type MessagesAnswer = AnswerOf<'GET /api/v1/sessions/{id}/messages'>;

/** Everything that is known about one session. */
interface InspectedSession {
  readonly context: ContextAnswer;
  readonly policies: PoliciesAnswer;
  readonly state: StateAnswer['keys'];
  readonly messages: MessagesAnswer['messages'];
}

export const sessionInspect: Command = {
  operands: 'ID',
  help: 'Show everything about a session, and where it comes from',
  flags: { json: jsonFlag },
  async run(invocation) {
    const context = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/context', {
      id: requirePositional(invocation, 'ID'),
    });
    const id = context.sessionId;
    const policies = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/policies', { id });
    const found = {
      context,
      policies,
      state: await readState(invocation, id),
      messages: await readInbox(invocation, id),
    };
    printData(invocation, found, () => renderInspection(found));
  },
};

export const sessionMessage: Command = {
  operands: 'ID TEXT',
  help: 'Send a message of the operator to the agent of a session',
  flags: {
    'reply-to': { type: 'string', value: 'MESSAGE', help: 'Id of the message that this one answers' },
    json: jsonFlag,
  },
  async run(invocation) {
    const [id, text, ...more] = invocation.positionals;
    if (id === undefined || id === '') throw new UsageError('ID is missing');
    if (text === undefined || text === '') throw new UsageError('TEXT is missing');
    if (more.length > 0) throw new UsageError('only one TEXT is expected', 'Put the text in quotes.');
    const sent = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/messages', {
      id,
      body: { text, replyTo: readFlag(invocation, 'reply-to') },
    });
    printData(invocation, sent, () => `Message ${sent.messageId} is in the inbox of the session.`);
  },
};

async function readState(invocation: Invocation, id: string): Promise<StateAnswer['keys']> {
  const keys: StateAnswer['keys'][number][] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page: StateAnswer = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/state', {
      id,
      query: { after },
    });
    keys.push(...page.keys);
    after = page.next;
  }
  return keys;
}

async function readInbox(invocation: Invocation, id: string): Promise<MessagesAnswer['messages']> {
  const messages: MessagesAnswer['messages'][number][] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page: MessagesAnswer = await controlRequest(invocation, 'GET /api/v1/sessions/{id}/messages', {
      id,
      query: { after },
    });
    messages.push(...page.messages);
    after = page.next;
  }
  return messages;
}

export function renderInspection({ context, policies, state, messages }: InspectedSession): string {
  const sections = [
    ['Values', renderValues(context)],
    ['Servers', renderServers(context)],
    ['Permissions', renderPermissions(context)],
    ['Restricted tools', renderRestrictions(context)],
    ['Policies', renderPolicies(policies)],
    ['State', renderState(state)],
    ['Inbox', renderMessages(messages)],
  ] as const;
  return sections.map(([title, text]) => `${paintText('bold', title.toUpperCase())}\n${text}`).join('\n\n');
}

function renderValues({ values, openedBy }: ContextAnswer): string {
  const shown = values.filter(({ value, limits }) => value !== null || limits.length > 0);
  return renderPairs([
    ['opened by', openedBy],
    ...shown.flatMap(({ name, value, source, limits }) => [
      [name, `${showValue(value)} (${source})`] as const,
      ...limits.map((limit) => ['', limit] as const),
    ]),
  ]);
}

function showValue(value: ContextAnswer['values'][number]['value']): string {
  if (value === null) return 'not limited';
  if (Array.isArray(value)) return value.join(', ') || 'none';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function renderServers({ servers }: ContextAnswer): string {
  if (servers.length === 0) return 'No servers are configured.';
  return renderPairs(
    servers.map(({ name, available, rule, reason, problem }) => [
      name,
      available
        ? `available${problem === undefined ? '' : `, but it will not start: ${problem}`}`
        : `not available: ${reason} (${rule})`,
    ]),
  );
}

function renderPermissions({ permissions }: ContextAnswer): string {
  if (permissions.length === 0) return 'The session has no permissions, and no tool needs one.';
  return permissions
    .flatMap(({ permission, held, usedBy, change }) => [
      `${permission} (${held ? 'held' : 'not held'})`,
      ...(usedBy.length === 0 ? [] : indentText(`for ${usedBy.join(', ')}`)),
      ...indentText(change),
    ])
    .join('\n');
}

function renderRestrictions({ tools }: ContextAnswer): string {
  if (tools.length === 0) return 'No lists and rules restrict the tools of these servers.';
  return renderTable(
    ['SERVER', 'ALLOW', 'DENY', 'RULES'],
    tools.map(({ server, allow, deny, rules }) => [server, allow.join(', '), deny.join(', '), rules.join(', ')]),
  );
}

function renderPolicies({ policies, objectives, deliveries, block }: PoliciesAnswer): string {
  if (block === null) return 'Agents of this session get no policies and objectives.';
  const rows = [
    ...policies.map(({ name, scope, outcome, by }) => [name, scope, by === null ? outcome : `${outcome} (${by})`]),
    ...objectives.map(({ text, scope }) => [text, scope, 'objective']),
  ];
  const delivered = deliveries.map(({ at, to, kind, isCurrent }) => [
    relativeTime(at),
    to,
    kind,
    isCurrent ? 'current' : 'outdated',
  ]);
  return [
    ...(rows.length === 0 ? [] : [renderTable(['NAME', 'SCOPE', 'OUTCOME'], rows)]),
    deliveries.length === 0
      ? 'No client has got them in a result yet.'
      : renderTable(['DELIVERED', 'CLIENT', 'AS', 'TEXT'], delivered),
  ].join('\n');
}

function renderState(keys: StateAnswer['keys']): string {
  if (keys.length === 0) return 'No state.';
  return renderTable(
    ['KEY', 'SCOPE', 'VERSION', 'BYTES', 'EXPIRES'],
    keys.map(({ key, scope, version, bytes, expiresAt }) => [
      key,
      scope,
      String(version),
      String(bytes),
      expiresAt === null ? '' : relativeTime(expiresAt),
    ]),
  );
}

function renderMessages(messages: MessagesAnswer['messages']): string {
  if (messages.length === 0) return 'No unread messages.';
  return messages
    .flatMap(({ id, at, from, text }) => [
      `${id} from ${from.sessionId === null ? 'the operator' : (from.name ?? from.sessionId.slice(0, 8))}, ${relativeTime(at)}`,
      ...text.split('\n').flatMap((line) => indentText(line)),
    ])
    .join('\n');
}

function indentText(text: string): string[] {
  return wrapText(text, findTextWidth() - 2).map((line) => `  ${line}`);
}
