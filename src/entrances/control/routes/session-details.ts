import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { isSuppliedId } from '../../../sessions/session.ts';
import type { SessionRecord } from '../../../stores/record.ts';
import { defineRoute, showSession } from '../route.ts';
import { findRecord } from './sessions.ts';

const sessionParameter = 'Id of the session, a unique name, or a unique prefix of the id.';

const messagesQuery = z.object({
  after: z.string().exactOptional().describe('Value of "next" from the previous page.'),
});

const stateQuery = messagesQuery.extend({
  // The store refuses other numbers.
  limit: z.string().transform(Number).default(100).meta({
    type: 'integer',
    minimum: 1,
    maximum: 1000,
    description: 'Maximum number of keys per page. Default: 100.',
  }),
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
      const { values, ...rest } = await gateway.inspector.describeContext(record, await gateway.openAccess());
      const shown = values.map((each) =>
        each.name === 'task' ? { ...each, value: showSession({ task: each.value }, caller).task } : each,
      );
      return { ...rest, values: shown };
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
    parameter: sessionParameter,
    query: stateQuery,
    returns: 'A page of keys',
    answer: 'sessionState',
    handle: async (gateway, { parameter, query }) =>
      gateway.inspector.listStateKeys(await findLiveRecord(gateway, parameter), query),
  }),
  'GET /api/v1/sessions/{id}/messages': defineRoute({
    role: 'viewer',
    summary: 'Lists the unacknowledged messages in the inbox of a session, and acknowledges none',
    parameter: sessionParameter,
    query: messagesQuery,
    returns: 'A page of messages',
    answer: 'sessionMessages',
    handle: async (gateway, { parameter, query }) =>
      gateway.inspector.listMessages(await findLiveRecord(gateway, parameter), query.after),
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
