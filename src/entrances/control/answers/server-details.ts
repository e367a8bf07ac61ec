import { z } from 'zod';
import { serverStates } from '../../../gateway/server-activity.ts';
import { toolStates } from '../../../gateway/server-admin/describe-server.ts';
import { instantSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { transports } from '../../../upstreams/definition.ts';
import { toolRestrictions } from './configuration.ts';
import { listOf } from './parts.ts';

/** The last failure of a server. */
export const lastErrorSchema = z
  .object({ at: instantSchema, message: z.string() })
  .nullable()
  .describe('Last failure of the server; null if there was none since the gateway started.');

const approvalState = z
  .enum(['not needed', 'approved', 'changed', 'exposed', 'unapproved'])
  .describe('changed: it differs from what was approved. exposed: another account could replace its program.');

const serverSource = z
  .enum(['operator', 'imported', 'project'])
  .describe('operator: the configuration. project: an included file.');

const serverOverview = z
  .object({
    name: z.string(),
    source: serverSource,
    file: z.string().nullable().describe('Included or imported file; null for a server of the configuration.'),
    transport: z.enum(transports).describe('http: Streamable HTTP. sse: HTTP+SSE, configured or detected.'),
    trust: listOf(z.enum(['direct', 'sandboxed'])).describe('Trust levels of the sessions that may use the server.'),
    era: z.enum(['modern', 'handshake']).nullable().describe('Protocol era of the server; null while it is unknown.'),
    approval: approvalState,
    changes: stringListSchema.describe('Differences between the server and its approval.'),
    definitionHash: z.string().nullable().describe('Hash of the definition of the server; null for a viewer.'),
    state: z
      .enum(serverStates)
      .nullable()
      .describe(
        'running: a process runs. idle: no process runs; the next call starts one. failed: the last start failed, or the last process ended by itself. reachable, unreachable: result of the last call to an HTTP server. unapproved: it may not start until it is approved. null: no gateway is running.',
      ),
    processes: z.int().nullable().describe('Number of running processes; null if no gateway is running.'),
    lastError: lastErrorSchema,
  })
  .meta({ id: 'Server' });

export const servers = z.object({ servers: listOf(serverOverview) });

const definition = z
  .discriminatedUnion('kind', [
    z.object({
      kind: z.literal('stdio'),
      command: z.string(),
      args: stringListSchema
        .nullable()
        .describe(
          'Arguments; null for a viewer. A review shows them exactly as they are pinned. Elsewhere credentials are replaced by "…".',
        ),
      argCount: z.int().describe('Number of arguments.'),
      env: stringListSchema.describe('Names of its variables.'),
      program: z.string().nullable().describe('File that the command starts; null if it was not found.'),
      problem: z.string().nullable().describe('Reason why the program was not found.'),
      files: listOf(z.object({ path: z.string(), leadsTo: z.string(), sha256: z.string().nullable() }))
        .nullable()
        .describe('Files that decide what runs. An approval pins their content. Null for a viewer.'),
      fileCount: z.int().describe('Number of these files.'),
      package: z
        .object({ name: z.string(), version: z.string(), integrity: z.string() })
        .nullable()
        .describe('Package that the command names, if it was downloaded.'),
    }),
    z.object({
      kind: z.literal('http'),
      url: z.string().describe('URL. A review shows it whole, others without the values of its query.'),
      headers: stringListSchema.describe('Names of its headers.'),
    }),
  ])
  .describe('Command or URL of the server, without values of variables and headers.');

const toolPart = z.object({
  part: z.string().describe('Member of the tool, such as "description" or "inputSchema".'),
  diff: z
    .string()
    .describe('Changed lines, with "+" or "-" before each. A new or removed member is whole. JSON is indented.'),
  note: z
    .string()
    .nullable()
    .describe('Reason why something is not shown, such as an approved text that was not kept.'),
});

const serverTool = z.object({
  name: z.string(),
  state: z
    .enum(toolStates)
    .describe(
      'approved: as it was approved. new, changed: hidden until it is approved. removed: it was approved, and no list has it any more. withheld: hidden, because clients could read its definition in different ways. not pinned: the server needs no approval, or its tools have not been listed since it was approved.',
    ),
  description: z
    .string()
    .nullable()
    .describe('Text of the server, up to 2,000 characters; null if it has none, or a list with credentials has it.'),
  changes: stringListSchema.describe('Differences to the approved definition.'),
  parts: listOf(toolPart).describe('What changed in the tool. Text that looks like a credential is replaced.'),
});

export const serverDetails = serverOverview.extend({
  definition,
  pinsHash: z
    .string()
    .nullable()
    .describe('Hash of everything that an approval would pin now; null if the server needs none, and for a viewer.'),
  approvedAt: instantSchema.nullable(),
  toolsListedAt: instantSchema
    .nullable()
    .describe('Time when the server last listed its tools; null if that is unknown.'),
  tools: listOf(serverTool).describe('Tools of all stored lists, up to 2,000, sorted by name.'),
  restrictions: toolRestrictions,
  logins: listOf(z.object({ userId: z.string(), state: z.enum(['active', 'lost', 'wanted']) })).describe(
    'Users who have logged in to the server. lost: the user has to log in again. wanted: the server wants more scopes.',
  ),
});

export const serverCheck = z.object({
  name: z.string(),
  transport: z.enum(transports),
  era: z.enum(['modern', 'handshake']).nullable().describe('Null, like `tools` and `seconds`, if it did not answer.'),
  tools: z.int().nullable().describe('Number of its tools.'),
  seconds: z.number().nullable().describe('Time until it had listed its tools.'),
  approval: z.enum(['not needed', 'approved']),
  changes: stringListSchema.describe('Differences between its tools and the approved ones. Such tools are hidden.'),
  missing: z
    .string()
    .nullable()
    .describe('Reason why the tools for clients with more capabilities could not be listed.'),
  unsound: z.int().describe('Number of tools that are hidden because clients could read them in different ways.'),
  error: z
    .object({ code: z.string(), message: z.string(), hint: z.string() })
    .nullable()
    .describe('Reason why the server did not answer.'),
  stderr: stringListSchema.describe('Last lines that it wrote to stderr, if it did not answer.'),
});

export const serverReview = z.object({
  name: z.string(),
  source: serverSource,
  file: z.string().nullable(),
  approval: approvalState,
  approvedAt: instantSchema.nullable(),
  changes: stringListSchema.describe('Differences between the server and its approval.'),
  definition,
  definitionDiff: z
    .string()
    .nullable()
    .describe(
      'Lines of the definition that changed since the approval, with "+" or "-" before each; null if there are none. Values of variables and headers are left out.',
    ),
  env: listOf(z.object({ name: z.string(), value: z.string() })).describe(
    'Variables. A value that looks like a credential is replaced by "…".',
  ),
  notes: stringListSchema.describe(
    'What may decide what runs but is not pinned, and files that a session could replace.',
  ),
  tools: listOf(
    z.object({
      tool: z.string(),
      kind: z.enum(['added', 'changed', 'removed']),
      changes: stringListSchema,
      parts: listOf(
        toolPart.extend({
          before: z
            .string()
            .nullable()
            .describe('Approved text, up to 20,000 characters; null if there was none or it was not kept.'),
          after: z.string().nullable().describe('Present text, up to 20,000 characters; null if it was removed.'),
        }),
      ).describe('Members that differ. For a new or removed tool all members.'),
      description: z.string().nullable().describe('Present description.'),
      isShortened: z.boolean().describe('The description is longer than 20,000 characters.'),
    }),
  ).describe('Tools that differ from the approved ones.'),
  definitionHash: z.string(),
  pinsHash: z.string().describe('Hash of everything that an approval would pin.'),
  toolsHash: z
    .string()
    .nullable()
    .describe('Hash of the listed tools; null if there is nothing to approve about them.'),
});

export const serverApproval = z.object({ name: z.string(), approval: z.enum(['not needed', 'approved']) });

export const configurationEdit = z.object({
  diff: stringListSchema.describe(
    'Changed lines, with "+" or "-" before each. Credentials are replaced by "…", but arguments and URLs of added servers are whole.',
  ),
  applied: z.boolean().describe('Whether the file was changed; false for a dry run.'),
  reloaded: z.boolean().describe('Whether the gateway uses the changed configuration.'),
  reason: z.string().nullable().describe('Reason why the gateway does not use it.'),
  problems: stringListSchema.describe('Servers that cannot be added, and settings that are ignored.'),
});

export const serverImport = configurationEdit.extend({
  plan: listOf(
    z.object({
      name: z.string().describe('Name in the configuration.'),
      action: z.enum(['add', 'keep']).describe('keep: a server of this name exists and stays as it is.'),
      reason: z.string().nullable(),
    }),
  ),
});
