import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { completeRange } from '../../../observability/journal/statistics/statistics.ts';
import { defineRoute, nameReader, type RouteRequest } from '../route.ts';
import { instant } from './servers.ts';
import { findRecord } from './sessions.ts';

const text = z.string().min(1, 'at least one character');

const processesQuery = z.object({
  session: text
    .exactOptional()
    .describe('Only processes of this session alone: its id, a unique name, or a unique prefix of the id.'),
  server: text.exactOptional().describe('Only processes of this server.'),
});

const statisticsQuery = z.object({
  since: instant
    .exactOptional()
    .describe('Start of the time range, at most 31 days before its end. Default: 24 hours before its end.'),
  until: instant.exactOptional().describe('End of the time range. Default: now.'),
  session: text
    .exactOptional()
    .describe('Only this session: its id or the beginning of it, or the name of a live session.'),
});

/** The running processes, and numbers about the past. */
export const statisticsRoutes = {
  'GET /api/v1/processes': defineRoute({
    role: 'viewer',
    summary: 'Lists the running processes of servers with their memory and limits',
    description:
      'Memory was measured at most a second ago. A session as filter leaves out the processes that it shares with others.',
    query: processesQuery,
    returns: 'The processes, oldest first',
    answer: 'processes',
    handle: listProcesses,
  }),
  'GET /api/v1/stats': defineRoute({
    role: 'viewer',
    summary: 'Counts calls, refusals and processes over time',
    description:
      'The numbers come from the journal. A step has at least one minute, and there are at most 120 steps. Durations are exact to 5 %. Two requests are answered at once; others wait like searches of the journal, and more are refused with OVERLOADED.',
    query: statisticsQuery,
    returns: 'The numbers',
    answer: 'statistics',
    handle: readStatistics,
  }),
};

async function listProcesses(gateway: Operator, { query }: RouteRequest<{ query: typeof processesQuery }>) {
  const { running } = gateway;
  if (running === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', {
      what: 'No gateway is running, and only a running gateway has processes of servers.',
    });
  }
  const { session, server } = query;
  const sessionId = session === undefined ? undefined : (await findRecord(gateway, session)).id;
  return { processes: running.listProcesses({ sessionId, server }) };
}

function readStatistics(gateway: Operator, asked: RouteRequest<{ query: typeof statisticsQuery }>) {
  const { query, caller, signal } = asked;
  const { session } = query;
  const range = completeRange(query);
  const asReader = { signal, ...nameReader(caller) };
  if (session === undefined) return gateway.readStatistics(range, asReader);
  return gateway.readStatistics(async () => {
    // The journal is most needed when the store cannot be reached.
    const isGone = signal?.aborted === true;
    const named = isGone ? undefined : await gateway.sessions.find(session).catch(() => undefined);
    return { ...range, session: named?.id ?? session };
  }, asReader);
}
