import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { suggestClosest } from '../../../config/explain/suggest.ts';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import type { ServerLogLine, ServerLogs } from '../../../gateway/server-activity.ts';
import { manifest } from '../../../package-paths.ts';
import type { Page } from '../../../stores/store.ts';
import { defineRoute, type RouteRequest } from '../route.ts';

const shortIdLength = 8;
const maxLines = 1000;
const linesLimit = { error: `a whole number from 0 to ${maxLines}` };

const logQuery = z.object({
  lines: z.coerce
    .number(linesLimit)
    .int(linesLimit)
    .min(0, linesLimit)
    .max(maxLines, linesLimit)
    .default(100)
    .describe('Maximum number of lines.'),
  session: z
    .string()
    .min(1, 'the id of a session')
    .exactOptional()
    .describe('Only lines of this session: its id, a unique name, or a unique prefix of the id.'),
  follow: z
    .enum(['true', 'false'])
    .exactOptional()
    .describe('With `true` the response is a stream of server-sent events that continues with new lines.'),
});

/** The gateway itself, and its servers. */
export const serverRoutes = {
  'GET /api/v1/status': defineRoute({
    summary: 'Shows the gateway, and counts its sessions, servers and processes',
    returns: 'The status',
    answer: 'gatewayStatus',
    handle: describeStatus,
  }),
  'GET /api/v1/servers': defineRoute({
    summary: 'Lists the servers of the configuration with their state',
    returns: 'The servers',
    answer: 'servers',
    handle: async (gateway) => ({ servers: await gateway.listServers() }),
  }),
  'GET /api/v1/servers/{id}/logs': defineRoute({
    summary: 'Lists the last lines that the processes of a server wrote to stderr',
    description:
      'The gateway keeps them in memory, up to 1,000 lines or 256 KiB for each server. In a stream (`follow=true`), the data of each event `line` is one line. An event `dropped` contains the `count` of lines that were left out because the client read too slowly.',
    parameter: 'Name of the server.',
    query: logQuery,
    returns: 'The lines, oldest first',
    answer: 'serverLog',
    handle: readServerLog,
  }),
};

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

async function describeStatus(gateway: Operator, { address }: RouteRequest) {
  const { running, paths, config } = gateway;
  const [servers, sessions] = await Promise.all([gateway.listServers(), countSessions(gateway)]);
  const states: Record<string, number> = {};
  for (const { state } of servers) if (state !== null) states[state] = (states[state] ?? 0) + 1;
  return {
    gateway:
      running === undefined
        ? null
        : {
            url: address ?? null,
            pid: process.pid,
            version,
            startedAt: new Date(running.startedAt).toISOString(),
            logFile: running.logFile ?? null,
          },
    ...paths,
    sessions,
    servers: {
      total: servers.length,
      states,
      // The whole list may be long; a status shows what needs attention.
      troubled: servers
        .filter(({ state }) => state === 'failed' || state === 'unreachable' || state === 'unapproved')
        .map(({ name, state, lastError }) => ({ name, state: state as string, lastError })),
    },
    processes: running === undefined ? null : { running: running.processCount(), max: config.processes.max },
    store: { kind: config.store.kind, reachable: sessions !== null },
  };
}

/** Counts the live sessions by trust level; null if the store cannot be reached. */
async function countSessions({ sessions }: Operator) {
  const counts = { total: 0, direct: 0, sandboxed: 0 };
  let after: string | null = null;
  try {
    do {
      const page: Page = await sessions.list({}, { limit: 1000, ...(after === null ? {} : { after }) });
      counts.total += page.sessions.length;
      for (const { trustLevel } of page.sessions) counts[trustLevel]++;
      after = page.next;
    } while (after !== null);
    return counts;
  } catch (error) {
    if (isAmbitError(error) && error.code === 'STORE_UNAVAILABLE') return null;
    throw error;
  }
}

async function readServerLog(gateway: Operator, asked: RouteRequest<{ query: typeof logQuery }>) {
  const { parameter: server, query } = asked;
  const logs = requireServerLogs(gateway);
  const names = Object.keys(gateway.config.servers);
  if (!names.includes(server)) {
    throw new AmbitError('SERVER_NOT_AVAILABLE', {
      what: `The configuration has no server "${server.slice(0, 64)}"${suggestClosest(server, names) || '.'}`,
      hint: 'List them with "ambit server list".',
    });
  }
  const kept = logs.list(server);
  const sessionId = await resolveSessionFilter(gateway, kept, query.session);
  const fitting = kept.filter((line) => sessionId === null || line.sessionId?.startsWith(sessionId));
  return {
    server,
    sessionId,
    position: kept.at(-1)?.number ?? logs.last(server),
    lines: query.lines === 0 ? [] : fitting.slice(-query.lines).map(showLogLine),
  };
}

function requireServerLogs({ running }: Operator): ServerLogs {
  if (running !== undefined) return running.serverLogs;
  throw new AmbitError('GATEWAY_UNREACHABLE', {
    what: 'No gateway is running, and the logs of servers are in the memory of a running gateway.',
  });
}

/** Finds the id that the lines of a session have. A session that has ended is known by its lines only. */
async function resolveSessionFilter(
  gateway: Operator,
  kept: readonly ServerLogLine[],
  reference: string | undefined,
): Promise<string | null> {
  if (reference === undefined) return null;
  const found = await gateway.sessions.find(reference);
  if (found !== undefined) return found.id;
  const isKnown = reference.length >= 4 && kept.some(({ sessionId }) => sessionId?.startsWith(reference));
  if (isKnown) return reference;
  throw new AmbitError('SESSION_NOT_FOUND');
}

/** A line as readers of the control API get it. */
export function showLogLine({ at, sessionId, pid, text }: ServerLogLine) {
  return {
    at: new Date(at).toISOString(),
    session: sessionId?.slice(0, shortIdLength) ?? null,
    pid: pid ?? null,
    line: text,
  };
}
