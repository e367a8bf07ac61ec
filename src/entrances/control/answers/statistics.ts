import { z } from 'zod';
import { instantSchema } from '../../../sessions/session-schema.ts';
import { listOf } from './parts.ts';

const process = z
  .object({
    server: z.string(),
    sessionId: z.string().nullable().describe('Session of the process; null if several sessions share it.'),
    pid: z.int().nullable(),
    runner: z.string().describe('How the process was started: "plain", "bwrap", "container" or "seatbelt".'),
    startedAt: instantSchema,
    memoryBytes: z
      .int()
      .nullable()
      .describe(
        'Memory of the process and everything it has started, now: private and shared memory and swap, without pages of files. Null if it is unknown, for example on macOS.',
      ),
    processes: z
      .int()
      .nullable()
      .describe('Number of processes: this one and all that it has started, with those of the sandbox.'),
    limits: listOf(
      z.object({
        name: z.enum(['memoryMb', 'pids', 'cpus', 'fileMb', 'openFiles', 'wallSeconds']),
        value: z.number(),
        mechanism: z.string().describe('What enforces the limit, for example "cgroup v2", "rlimit" or "watchdog".'),
      }),
    ).describe('Limits of its sandbox, which processes of one server and session share. Empty without a sandbox.'),
    idleSince: instantSchema.nullable().describe('Time of the last activity; null while a call is running.'),
  })
  .meta({ id: 'Process' });

export const processes = z.object({ processes: listOf(process) });

const count = z.int();
const milliseconds = z.number().nullable();
const p50 = milliseconds.describe('Median duration of the answered calls in milliseconds; null if there were none.');
const p99 = milliseconds.describe('99th percentile of the same durations.');
const calls = count.describe('Tool calls.');
const errors = count.describe('Tool calls whose outcome is not "ok".');
const refusals = count.describe('Requests that Ambit answered with an error code of its own, tool calls included.');

export const statistics = z
  .object({
    since: instantSchema.describe('Start of the first step, which may be earlier than requested.'),
    until: instantSchema.describe('End of the last step, which may be later than requested.'),
    stepSeconds: count,
    series: listOf(z.object({ at: instantSchema.describe('Start of the step.'), calls, errors, refusals, p50, p99 })),
    totals: z.object({ calls, errors, refusals, p50, p99, sessionsOpened: count }),
    refusalsByRule: listOf(
      z.object({
        rule: z.string().nullable().describe('Rule that decided; null if the refusal names none.'),
        code: z
          .string()
          .nullable()
          .describe('Error code; for a request without one, the event of its "refusal" line. Null: all further ones.'),
        count,
      }),
    ).describe('Refusals by rule and code, the most frequent first.'),
    tools: listOf(
      z.object({
        server: z.string().nullable(),
        tool: z.string().nullable().describe('Null, with a server of null: all tools without a row of their own.'),
        calls,
        errors,
        p50,
        p99,
      }),
    ).describe('Up to 200 tools, the most used first.'),
    servers: listOf(
      z.object({
        server: z.string().nullable().describe('Null: all servers without a row of their own.'),
        calls,
        errors,
      }),
    ).describe('Servers of the tool calls, the most used first.'),
    processes: z.object({
      started: count,
      failed: count.describe('Processes that could not be started.'),
    }),
    complete: z
      .boolean()
      .describe('False if older files of the journal are still being read. The numbers are then too low; ask again.'),
  })
  .meta({ id: 'Statistics' });
