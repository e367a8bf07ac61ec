import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { suggestClosest } from '../../../config/explain/suggest.ts';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import type { ServerLogLine, ServerLogs, ServerOverview } from '../../../gateway/server-activity.ts';
import { entryKinds } from '../../../observability/journal/journal.ts';
import type { EntryFilter } from '../../../observability/journal/read-entries.ts';
import { manifest } from '../../../package-paths.ts';
import type { SessionRecord } from '../../../stores/record.ts';
import type { Page } from '../../../stores/store.ts';
import { hideLargeFile } from '../../../upstreams/pins/server-pins.ts';
import { type ControlCaller, defineRoute, hasRole, nameReader, type RouteRequest } from '../route.ts';
import { findRecord, journalPageQuery } from './sessions.ts';

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

const maxWords = 32;
const text = z.string().min(1, 'at least one character');
/** A time of a query. */
export const instant = z.iso
  .datetime({ offset: true, error: 'a time such as 2026-11-18T09:00:00Z' })
  .transform((time) => new Date(time).toISOString());

const journalQuery = journalPageQuery.extend({
  id: text.exactOptional().describe('Only lines of this call: its correlation id, or the beginning of it.'),
  session: text
    .exactOptional()
    .describe(
      'Only lines of this session: its id or the beginning of it, or a name. Lines of all live and ended sessions with the name match.',
    ),
  user: text.exactOptional().describe('Only lines of this user.'),
  server: text.exactOptional().describe('Only lines about this server.'),
  tool: text.exactOptional().describe('Only lines about this tool, as "tool" or "server__tool".'),
  kind: z.enum(entryKinds).exactOptional().describe('Only lines of this kind.'),
  event: text.exactOptional().describe('Only lines with this event.'),
  method: text.exactOptional().describe('Only calls of this method, such as "tools/call".'),
  rule: text.exactOptional().describe('Only lines about a decision of this rule. "-": only lines without a rule.'),
  outcome: text
    .exactOptional()
    .describe(
      'Only lines with this outcome, decision or code. "error": all lines about something that did not succeed. "refusal": only what Ambit refused, as the statistics count it.',
    ),
  since: instant.exactOptional().describe('Only lines from this time on.'),
  until: instant.exactOptional().describe('Only lines up to this time.'),
  words: text
    .transform((words) => [...new Set(words.split(/\s+/).filter(Boolean))])
    // Each line is searched for each word.
    .refine(({ length }) => length <= maxWords, `at most ${maxWords} different words`)
    .exactOptional()
    .describe(
      `Only lines that contain all these words, separated by blanks, in any letter case. At most ${maxWords} words.`,
    ),
});

/** The gateway itself, its journal and its servers. */
export const serverRoutes = {
  'GET /api/v1/status': defineRoute({
    role: 'viewer',
    summary: 'Shows the gateway, and counts its sessions, servers and processes',
    returns: 'The status',
    answer: 'gatewayStatus',
    handle: describeStatus,
  }),
  'GET /api/v1/journal': defineRoute({
    role: 'viewer',
    summary: 'Searches the journal, newest lines first',
    description:
      'One request reads up to 16 MB of the journal, so a page can be empty although "next" is set. Two requests are read at once; others wait, up to 64 for each person and 16 for each console, and more are refused with OVERLOADED. The page "Journal" describes the lines.',
    query: journalQuery,
    returns: 'A page of journal lines',
    answer: 'journalPage',
    handle: searchJournal,
  }),
  'GET /api/v1/servers': defineRoute({
    role: 'viewer',
    summary: 'Lists the servers of the configuration with their state',
    returns: 'The servers',
    answer: 'servers',
    handle: async (gateway, { caller, signal }) => ({
      servers: (await gateway.listServers(signal)).map((each) => showOverview(each, caller)),
    }),
  }),
  'GET /api/v1/servers/{id}/logs': defineRoute({
    role: 'viewer',
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

/**
 * A server as this caller may see it. Arguments are for admins, because any of them can be a password. So are the paths of
 * pinned files, which are arguments, and the hash, with which arguments and values of variables could be guessed.
 */
export function showOverview(server: ServerOverview, caller: ControlCaller): ServerOverview {
  if (hasRole(caller, 'admin')) return server;
  const how = server.approval === 'exposed' ? 'another account could replace it' : 'changed';
  const changes = server.changes.map((line) => hideArgument(line, how));
  return { ...server, definitionHash: null, changes: [...new Set(changes)] };
}

/** A difference to an approval without arguments, URLs and paths of pinned files. */
function hideArgument(line: string, how: string): string {
  const [, subject] = /^(args\[\d+\]|url|script)[: ]/.exec(line) ?? [];
  if (subject !== undefined) return `${subject}: ${how}`;
  return line.startsWith('command: ') ? `command: ${hideLargeFile(line.slice('command: '.length))}` : line;
}

const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string };

async function describeStatus(gateway: Operator, { address, signal }: RouteRequest) {
  const { running, paths, config } = gateway;
  const [servers, sessions] = await Promise.all([gateway.listServers(signal), countSessions(gateway)]);
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

async function searchJournal(gateway: Operator, asked: RouteRequest<{ query: typeof journalQuery }>) {
  const { query, caller, signal } = asked;
  const { limit, before, session, ...filter } = query;
  const page = { limit, before, signal, ...nameReader(caller) };
  if (session === undefined) return gateway.searchJournal(filter, page);
  // A search that is refused, or whose client leaves while it waits, looks nothing up.
  return gateway.searchJournal(async () => ({ ...filter, ...(await findSessions(gateway, session, asked)) }), page);
}

/** Finds the sessions that a reference means. The journal is most needed when the store cannot be reached. */
async function findSessions(
  gateway: Operator,
  session: string,
  { query: { since }, signal }: RouteRequest<{ query: typeof journalQuery }>,
): Promise<Pick<EntryFilter, 'session' | 'sessionIds'>> {
  const found = await gateway.sessions.find(session).catch(() => undefined);
  if (found?.id === session) return { session };
  const ended = await findEnded(gateway, session, since, signal).catch(() => []);
  const live = found === undefined ? await findLive(gateway, session).catch(() => []) : [found];
  const named = [...live.filter(({ name }) => name === session).map(({ id }) => id), ...ended];
  // A name comes before the beginning of an id.
  return named.length > 0 ? { sessionIds: named } : { session: found?.id ?? session };
}

/** The time after its end in which lines of a session are written: its processes and its folder go last. */
const lateMs = 3_600_000;

async function findEnded(
  gateway: Operator,
  name: string,
  since: string | undefined,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const from = since === undefined ? undefined : Date.parse(since) - lateMs;
  const { sessions } = await gateway.endedSessions.list({ name, since: from, limit: 1000, signal });
  return sessions.map(({ id }) => id);
}

/** Finds the live sessions with a name. Several users may have one each. */
async function findLive({ sessions }: Operator, name: string): Promise<SessionRecord[]> {
  const found: SessionRecord[] = [];
  let after: string | undefined;
  do {
    const page: Page = await sessions.list({}, { limit: 1000, ...(after === undefined ? {} : { after }) });
    found.push(...page.sessions.filter((session) => session.name === name));
    after = page.next ?? undefined;
  } while (after !== undefined);
  return found;
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
  return isKnown ? reference : (await findRecord(gateway, reference)).id;
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
