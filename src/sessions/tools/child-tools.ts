import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { checkTrust } from '../check-fields.ts';
import { type SessionDraft, sessionViewOf } from '../session.ts';
import { limitsSchema } from '../session-schema.ts';
import type { Reports } from '../teams/reports.ts';
import { readResultSchema } from '../teams/result-schema.ts';
import { assertIsNoId, assertTokenHas, nameAgent } from './check-child.ts';
import type { SessionReach } from './reach.ts';
import { shownSession } from './session-tools.ts';
import { defineTool, sessionArgument, type Tool, type ToolCaller } from './tool.ts';

/** Opens a child session within the bounds of its parent and of the caller. */
export type CreateChild = (
  draft: SessionDraft & { readonly parentId: string },
  caller: ToolCaller,
) => Promise<{
  readonly record: SessionRecord;
  /** The token of the child, where agents may have it. */
  readonly token?: string | undefined;
}>;

export interface ChildToolParts {
  readonly reach: SessionReach;
  readonly reports: Reports;
  readonly createChild: CreateChild;
  endSession(id: string): Promise<unknown>;
}

const names = z.array(z.string().max(200)).max(1000);

/** The tool by which an agent opens a session for another agent. */
export function sessionCreate({ reach, reports, createChild, endSession }: ChildToolParts): Tool {
  return defineTool({
    name: 'session_create',
    title: 'Create a child session',
    description:
      'Creates a session for another agent, as a child of this one: in the same workspace, with at most the same rights and time, and drawing on the same quota. It ends when this session ends.',
    effect: 'writes',
    input: z.strictObject({
      session: sessionArgument.describe('The parent: the session of this call (default), or one of its descendants.'),
      name: z.string().max(100).optional().describe('Name of the child, unique among the live sessions of the user.'),
      task: z.string().optional().describe('The work that the child is for, up to 4096 bytes.'),
      agent: z
        .string()
        .max(100)
        .optional()
        .describe(
          'Name of the agent that will use the child. The agent of the parent is put before it, as "lead:worker".',
        ),
      trust: z.string().max(60).optional().describe('"direct" or "sandboxed"; at most that of the parent.'),
      ttlSeconds: z.number().int().optional().describe('The child expires after this many seconds without a call.'),
      servers: names.optional().describe('Servers that the child may use. Default: those of the parent.'),
      permissions: names.optional().describe('Permissions of the child, out of those of the parent. Default: none.'),
      quotas: limitsSchema.optional().describe('Limits of the child, below those of the parent.'),
      resultSchema: z
        .unknown()
        .optional()
        .describe('JSON Schema (2020-12) of the value that the child returns with session_report.'),
    }),
    output: shownSession.extend({
      token: z.string().optional().describe('Token of the child, if the configuration lets agents have it.'),
    }),
    async run({ session, name, task, agent, trust, ttlSeconds, servers, permissions, quotas, resultSchema }, caller) {
      if (resultSchema !== undefined) readResultSchema(resultSchema);
      const parent = await reach.find(session, caller, { isExact: true });
      if (caller.session.unavailableWorkspace !== undefined) throw new AmbitError('WORKSPACE_NOT_FOUND');
      assertTokenHas(parent, permissions ?? [], caller.session);
      if (name !== undefined) await assertIsNoId(name, parent, reach);
      await reports.assertRoom(parent.id);
      const agentId = nameAgent(parent.agentId, agent);
      const { record, token } = await createChild(
        {
          parentId: parent.id,
          userId: parent.userId,
          ...(agentId === undefined ? {} : { agentId }),
          ...(name === undefined ? {} : { name }),
          ...(task === undefined ? {} : { task }),
          ...(trust === undefined ? {} : { trustLevel: checkTrust(trust) }),
          ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
          ...(servers === undefined ? {} : { servers }),
          ...(permissions === undefined ? {} : { permissions }),
          ...(quotas === undefined ? {} : { quotas }),
        },
        caller,
      );
      await reports.expect(record, resultSchema).catch(async (error: unknown) => {
        // If this fails too, the child expires by itself.
        await endSession(record.id).catch(() => {});
        throw error;
      });
      return { ...shownSession.parse(sessionViewOf(record)), ...(token === undefined ? {} : { token }) };
    },
  });
}
