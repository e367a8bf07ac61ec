import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { isSuppliedId } from '../../../sessions/session.ts';
import type { SessionRecord } from '../../../stores/record.ts';
import { type ControlCaller, defineRoute, hasRole, type RouteRequest, showWritten } from '../route.ts';
import { findRecord } from './sessions.ts';

const sessionParameter = 'Id of the session, a unique name, or a unique prefix of the id.';

const messagesQuery = z.object({
  after: z.string().exactOptional().describe('Value of "next" from the previous page.'),
});

const maxKeys = 1000;
const keysLimit = { error: `a whole number from 1 to ${maxKeys}` };

const stateQuery = messagesQuery.extend({
  limit: z.coerce
    .number(keysLimit)
    .int(keysLimit)
    .min(1, keysLimit)
    .max(maxKeys, keysLimit)
    .default(100)
    .describe('Maximum number of keys per page.'),
});

const newMessage = z.strictObject({
  text: z.string().describe('The message, at most sessions.messages.maxBytes.'),
  replyTo: z.string().exactOptional().describe('Id of the message that this one answers.'),
});

/** Everything that is known about one session, and messages to it. */
export const sessionDetailRoutes = {
  'GET /api/v1/sessions/{id}/context': defineRoute({
    role: 'viewer',
    summary: 'Shows each value of a session with its source, its servers, and what would change its permissions',
    parameter: sessionParameter,
    returns: 'The values, servers, permissions and restricted tools',
    answer: 'sessionContext',
    async handle(gateway, { parameter, caller }) {
      const record = await findLiveRecord(gateway, parameter);
      const { values, servers, ...rest } = await gateway.inspector.describeContext(record, await gateway.openAccess());
      const shown = values.map((each) =>
        each.name === 'task' ? { ...each, value: showWritten(each.value, caller) } : each,
      );
      return { ...rest, servers: servers.map((each) => showProblem(each, caller)), values: shown };
    },
  }),
  'GET /api/v1/sessions/{id}/policies': defineRoute({
    role: 'viewer',
    summary: 'Shows the policies and objectives of a session, and when its clients got them',
    parameter: sessionParameter,
    returns: 'All considered policies with their outcome, the objectives, the text, and its deliveries',
    answer: 'sessionPolicies',
    handle: async (gateway, { parameter }) =>
      gateway.inspector.describePolicies(await findLiveRecord(gateway, parameter)),
  }),
  'GET /api/v1/sessions/{id}/state': defineRoute({
    role: 'viewer',
    summary: 'Lists the keys of the state of a session and of its workspace, without values',
    description: 'For a viewer, credentials in keys are replaced by `[secret]`.',
    parameter: sessionParameter,
    query: stateQuery,
    returns: 'A page of keys',
    answer: 'sessionState',
    handle: listStateKeys,
  }),
  'GET /api/v1/sessions/{id}/messages': defineRoute({
    role: 'viewer',
    summary: 'Lists the unacknowledged messages in the inbox of a session, and acknowledges none',
    description:
      'For a viewer, credentials in texts are replaced by `[secret]`, and texts of more than 8,192 characters are cut.',
    parameter: sessionParameter,
    query: messagesQuery,
    returns: 'A page of messages',
    answer: 'sessionMessages',
    async handle(gateway, { parameter, query, caller }) {
      const { messages, next } = await gateway.inspector.listMessages(
        await findLiveRecord(gateway, parameter),
        query.after,
      );
      return { messages: messages.map((each) => ({ ...each, text: showWritten(each.text, caller) })), next };
    },
  }),
  'POST /api/v1/sessions/{id}/messages': defineRoute({
    role: 'admin',
    summary: 'Sends a message of the operator to the inbox of a session',
    description:
      'The agent gets it from session_inbox, with the name "operator" and null as the session of the sender. A call that waits for messages returns at once.',
    parameter: sessionParameter,
    body: newMessage,
    status: 201,
    returns: 'The id of the message',
    answer: 'sentMessage',
    async handle(gateway, { parameter, body, caller }) {
      const to = await findLiveRecord(gateway, parameter, true);
      return { messageId: await gateway.inspector.sendMessage(to, body, caller.by ?? 'control-socket') };
    },
  }),
};

/** A server of a session as this caller may see it. What keeps it from starting may name an argument. */
function showProblem<T extends { readonly problem?: string }>(server: T, caller: ControlCaller): T {
  if (hasRole(caller, 'admin') || server.problem === undefined) return server;
  return { ...server, problem: 'it will not start, and only admins can see why' };
}

async function listStateKeys(gateway: Operator, asked: RouteRequest<{ query: typeof stateQuery }>) {
  const { parameter, query, caller } = asked;
  const record = await findLiveRecord(gateway, parameter);
  if (hasRole(caller, 'admin')) return gateway.inspector.listStateKeys(record, query);
  const from = readPosition(query.after);
  const all = await readAllKeys(gateway, record, from + query.limit);
  const keys = all.slice(from, from + query.limit).map((each) => ({ ...each, key: showWritten(each.key, caller) }));
  return { keys, next: all.length > from + query.limit ? String(from + query.limit) : null };
}

/**
 * Reads where the page of a viewer begins: after so many keys. A page that begins after a key would show that key, and
 * with keys that it makes up, a viewer could find out what stands in a hidden one.
 */
function readPosition(after = '0'): number {
  if (/^\d{1,6}$/.test(after)) return Number(after);
  throw new AmbitError('REQUEST_INVALID', {
    what: '"after" is not a place in the list of keys.',
    hint: 'Pass "next" of the previous page unchanged.',
  });
}

/** Reads the keys of a session from the first one on, until there are more than `enough`. Their number is limited. */
async function readAllKeys({ inspector }: Operator, record: SessionRecord, enough: number) {
  let page = await inspector.listStateKeys(record, { limit: maxKeys });
  const keys = [...page.keys];
  while (page.next !== null && keys.length <= enough) {
    page = await inspector.listStateKeys(record, { limit: maxKeys, after: page.next });
    keys.push(...page.keys);
  }
  return keys;
}

/** Finds a live session. The id of a session that has ended a short time ago is answered with the reason. */
async function findLiveRecord(gateway: Operator, reference: string, isExact = false): Promise<SessionRecord> {
  const reason = isSuppliedId(reference) ? await gateway.sessions.whyGone(reference) : undefined;
  if (reason === undefined) return findRecord(gateway, reference, isExact);
  // SESSION_ENDED would be a 401, which clients of this API take for a credential that is not valid.
  throw new AmbitError('SESSION_NOT_FOUND', {
    what: `The session has ${reason === 'expired' ? 'expired' : `ended (${reason})`}.`,
    hint: `The journal has its events and calls: "ambit audit search --session ${reference}".`,
  });
}
