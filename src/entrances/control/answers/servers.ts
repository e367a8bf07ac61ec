import { z } from 'zod';
import { serverStates } from '../../../gateway/server-activity.ts';
import { instantSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { transports } from '../../../upstreams/definition.ts';
import { listOf } from './parts.ts';

const lastError = z
  .object({ at: instantSchema, message: z.string() })
  .nullable()
  .describe('Last failure of the server; null if there was none since the gateway started.');

const serverOverview = z
  .object({
    name: z.string(),
    source: z
      .enum(['operator', 'imported', 'project'])
      .describe('operator: the configuration. project: an included file.'),
    file: z.string().nullable().describe('Included or imported file; null for a server of the configuration.'),
    transport: z.enum(transports).describe('http: Streamable HTTP. sse: HTTP+SSE, configured or detected.'),
    trust: listOf(z.enum(['direct', 'sandboxed'])).describe('Trust levels of the sessions that may use the server.'),
    era: z.enum(['modern', 'handshake']).nullable().describe('Protocol era of the server; null while it is unknown.'),
    approval: z
      .enum(['not needed', 'approved', 'changed', 'exposed', 'unapproved'])
      .describe('changed: it differs from what was approved. exposed: another account could replace its program.'),
    changes: stringListSchema.describe('Differences between the server and its approval.'),
    definitionHash: z.string().describe('Hash of the definition of the server.'),
    state: z
      .enum(serverStates)
      .nullable()
      .describe(
        'running: a process runs. idle: no process runs; the next call starts one. failed: the last start failed, or the last process ended by itself. reachable, unreachable: result of the last call to an HTTP server. unapproved: it may not start until it is approved. null: no gateway is running.',
      ),
    processes: z.int().nullable().describe('Number of running processes; null if no gateway is running.'),
    lastError,
  })
  .meta({ id: 'Server' });

export const servers = z.object({ servers: listOf(serverOverview) });

export const serverLog = z.object({
  server: z.string(),
  sessionId: z.string().nullable().describe('Session given as filter; null if there was no filter.'),
  position: z.int().describe('Number of lines that the server has written so far.'),
  lines: listOf(
    z.object({
      at: instantSchema,
      session: z.string().nullable().describe('First 8 characters of the session id; null for a shared process.'),
      pid: z.int().nullable(),
      line: z.string().describe('The line. Secrets are removed and control characters are escaped.'),
    }),
  ),
});

export const gatewayStatus = z.object({
  gateway: z
    .object({
      url: z.string().nullable().describe('URL of the gateway; null if it has no HTTP listener.'),
      pid: z.int(),
      version: z.string(),
      startedAt: instantSchema,
      logFile: z.string().nullable().describe('Log file of a gateway in the background; otherwise null.'),
    })
    .nullable()
    .describe('The running gateway. Null only in the output of "ambit status", if no gateway is running.'),
  configFile: z.string(),
  dataDir: z.string(),
  sessions: z
    .object({ total: z.int(), direct: z.int(), sandboxed: z.int() })
    .nullable()
    .describe('Number of live sessions by trust level; null if the store cannot be reached.'),
  servers: z.object({
    total: z.int(),
    states: z.record(z.string(), z.int()).describe('Number of servers by state.'),
    troubled: listOf(z.object({ name: z.string(), state: z.string(), lastError })).describe(
      'Servers that are failed, unreachable or unapproved.',
    ),
  }),
  processes: z
    .object({ running: z.int(), max: z.int().describe('Value of processes.max in the configuration.') })
    .nullable()
    .describe('Server processes; null if no gateway is running.'),
  store: z.object({ kind: z.string(), reachable: z.boolean() }),
});

export const stopping = z.object({
  stopping: z.literal(true),
  pid: z.int(),
  processStart: z.int().nullable().describe('Start time in clock ticks since boot; null on systems without /proc.'),
  background: z.boolean().describe('Whether the gateway runs in the background.'),
});

export const openApi = z.record(z.string(), z.unknown());
