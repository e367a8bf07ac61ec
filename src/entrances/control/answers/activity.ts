import { z } from 'zod';
import { instantSchema } from '../../../sessions/session-schema.ts';
import { listOf } from './parts.ts';

export const activity = z
  .object({
    calls: z.int().describe('Number of tool calls that have ended in this gateway process, refused ones too.'),
    errors: z.int().describe('Number of those calls whose outcome is not "ok".'),
    underWay: z.int().describe('Number of unfinished tool calls in this gateway process.'),
    current: z
      .object({
        server: z.string().describe('Name of the server; "*" until it is found.'),
        tool: z.string().describe('Name of the tool, at most 200 characters. It comes from the agent.'),
        since: instantSchema,
      })
      .nullable()
      .describe('The unfinished call that started last; null if there is none.'),
    lastCallAt: instantSchema.nullable().describe('When the last call started or ended.'),
    recent: listOf(z.int()).describe(
      'Number of calls that ended in each 10 seconds of the last 5 minutes: 30 numbers, the oldest first.',
    ),
    recentUntil: instantSchema.describe(
      'End of the last 10 seconds of "recent". While no new numbers arrive, shift them by one for each 10 seconds after it.',
    ),
  })
  .meta({ id: 'Activity' });

const limitOrNull = (what: string) => z.int().nullable().describe(`${what}; null if it is not limited.`);

export const sessionLimits = z
  .object({
    callsPerMinute: limitOrNull('Maximum number of tool calls per minute'),
    burst: limitOrNull('Maximum number of tool calls at once, within callsPerMinute'),
    concurrentCalls: limitOrNull('Maximum number of concurrent tool calls'),
    totalCalls: limitOrNull('Maximum number of tool calls in total'),
    totalBytes: limitOrNull('Maximum number of bytes in tool calls and their results'),
  })
  .meta({ id: 'SessionLimits' });

export const sessionUsage = z.object({
  calls: z.int().describe('Number of tool calls.'),
  bytes: z.int().describe('Bytes of the calls and their results.'),
  underWay: z.int().describe('Number of unfinished calls.'),
  paceUsed: z
    .int()
    .describe(
      'Part of limits.burst that is used up now. It falls by limits.callsPerMinute per minute; 0 without that limit.',
    ),
});

export const activityEvent = z
  .object({
    at: instantSchema,
    sessions: listOf(z.object({ id: z.string() }).and(activity)).describe('The sessions that have changed.'),
  })
  .meta({ id: 'ActivityEvent' });

export const gatewayEvent = z
  .object({
    at: instantSchema,
    processes: z.int().describe('Number of running processes of servers.'),
    callsPerSecond: z.number().describe('Tool calls per second in this gateway process, since about a second ago.'),
    sessions: z.int().describe('Number of sessions that this gateway process has loaded.'),
  })
  .meta({ id: 'GatewayEvent' });
