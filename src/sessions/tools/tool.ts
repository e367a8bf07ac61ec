import * as z from 'zod';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Session } from '../session.ts';

const maxReasonLength = 300;
const maxIssues = 5;
const maxDepth = 128;

/** The argument that every tool has. */
export const sessionArgument = z
  .string()
  .min(1)
  .optional()
  .describe(
    'The session: its id, a unique name ("049" finds "task#049"), a unique prefix of the id, or "current" (default) for the session of this call.',
  );

/** The caller of a tool: the session of the call, and the principal that was authenticated. */
export interface ToolCaller {
  readonly session: Session;
  readonly principal: Principal;
  /** The correlation id of the request, where there is one. */
  readonly correlationId?: string | undefined;
  /** Aborted when the client has cancelled the call or has left. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the call begins to wait for other sessions. It then takes no place among the concurrent calls. */
  readonly onWait?: (() => void) | undefined;
}

/** A tool as `tools/list` describes it. */
export interface ToolDefinition {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: { readonly type: 'object'; readonly [key: string]: unknown };
  readonly outputSchema: { readonly type: 'object'; readonly [key: string]: unknown };
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly destructiveHint: boolean;
    readonly idempotentHint: boolean;
    readonly openWorldHint: boolean;
  };
}

export type StructuredContent = { readonly [key: string]: unknown };

interface TextBlock {
  readonly type: 'text';
  readonly text: string;
}

interface ImageBlock {
  readonly type: 'image';
  /** Base64. */
  readonly data: string;
  readonly mimeType: string;
}

/** The content that the model reads. The first block is a text. */
export type ContentBlocks = readonly [TextBlock, ...(TextBlock | ImageBlock)[]];

interface ToolAnswer {
  readonly structured: StructuredContent;
  readonly blocks: ContentBlocks;
}

export interface Tool {
  readonly definition: ToolDefinition;
  /** Checks the arguments and runs the tool. */
  run(args: unknown, caller: ToolCaller): Promise<ToolAnswer>;
}

const blocksKey = Symbol('what is read');

/** An answer with content blocks of its own. Without them, the model reads its JSON. */
export interface AnswerWithBlocks<T> {
  readonly structured: T;
  readonly [blocksKey]: ContentBlocks;
}

export function withBlocks<T>(structured: T, ...blocks: ContentBlocks): AnswerWithBlocks<T> {
  return { structured, [blocksKey]: blocks };
}

export interface ToolOptions<In extends z.ZodObject, Out extends z.ZodObject>
  extends Pick<ToolDefinition, 'name' | 'title' | 'description'> {
  readonly input: In;
  readonly output: Out;
  readonly effect: 'reads' | 'writes' | 'destroys';
  run(args: z.output<In>, caller: ToolCaller): Promise<z.input<Out> | AnswerWithBlocks<z.input<Out>>>;
}

/** Defines a tool. Its JSON schemas are derived on first use, since most processes never need them. */
export function defineTool<In extends z.ZodObject, Out extends z.ZodObject>(plan: ToolOptions<In, Out>): Tool {
  const { name, title, description, input, output, effect } = plan;
  let inputSchema: ToolDefinition['inputSchema'] | undefined;
  let outputSchema: ToolDefinition['outputSchema'] | undefined;
  return {
    definition: {
      name,
      title,
      description,
      get inputSchema() {
        inputSchema ??= createJsonSchema(input, 'input');
        return inputSchema;
      },
      get outputSchema() {
        outputSchema ??= createJsonSchema(output, 'output');
        return outputSchema;
      },
      annotations: {
        readOnlyHint: effect === 'reads',
        destructiveHint: effect === 'destroys',
        // A write makes another version each time, and an ended session cannot be ended again.
        idempotentHint: effect === 'reads',
        openWorldHint: false,
      },
    },
    run: async (args, caller) => createAnswer(await plan.run(parseArguments(input, args), caller)),
  };
}

function createAnswer(answer: StructuredContent | AnswerWithBlocks<StructuredContent>): ToolAnswer {
  if (blocksKey in answer) return { structured: answer.structured, blocks: answer[blocksKey] };
  return { structured: answer, blocks: [{ type: 'text', text: JSON.stringify(answer) }] };
}

function createJsonSchema(schema: z.ZodObject, io: 'input' | 'output'): ToolDefinition['inputSchema'] {
  // Strict validators refuse unknown formats.
  const withoutFormat = ({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }) => {
    if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    delete jsonSchema.format;
  };
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, override: withoutFormat });
  return { ...rest, type: 'object' };
}

/** Parses the arguments by the schema. The error says in words what the model has to correct. */
function parseArguments<S extends z.ZodType>(schema: S, args: unknown): z.output<S> {
  const read = schema.safeParse(args ?? {});
  if (read.success) return read.data;
  const words = read.error.issues
    .slice(0, maxIssues)
    .map(({ path, message }) => (path.length === 0 ? message : `"${path.join('.')}": ${message}`))
    .join('; ');
  throw new AmbitError('REQUEST_INVALID', {
    what: `The arguments are not valid: ${words.slice(0, maxReasonLength)}.`,
    hint: 'Correct them according to the schema of the tool.',
  });
}

/** Refuses deeper values: serialising them could overflow the stack. */
export function assertJsonDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) {
      throw new AmbitError('REQUEST_INVALID', { what: `The value is nested more than ${maxDepth} levels deep.` });
    }
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? Object.values(each) : []));
  }
}
