import { z } from 'zod';
import { instantSchema } from '../../../sessions/session-schema.ts';
import { listOf } from './parts.ts';
import { lastErrorSchema } from './server-details.ts';

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
    troubled: listOf(z.object({ name: z.string(), state: z.string(), lastError: lastErrorSchema })).describe(
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
