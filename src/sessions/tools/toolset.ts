import { AmbitError, isAmbitError } from '../../errors.ts';
import { createRefusalResult } from '../../protocol/compose-message.ts';
import type { ContentBlocks, StructuredContent, Tool, ToolCaller, ToolDefinition } from './tool.ts';

/** The result of `tools/call`. */
export interface ToolResult {
  readonly content: ContentBlocks;
  readonly structuredContent?: StructuredContent;
  readonly isError?: true;
  readonly _meta?: { readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** The tools that Ambit itself offers, on plain data and independent of the transport. */
export interface Toolset {
  list(): readonly ToolDefinition[];
  has(name: string): boolean;
  /**
   * Tells whether the results of a tool must stay as they are: policies, and contents of files. The others may have texts
   * of other agents, in which a forged context block is marked.
   */
  isExact(name: string): boolean;
  /** Runs a tool; throws an AmbitError where `call` returns a refusal. */
  run(name: string, args: unknown, caller: ToolCaller): Promise<ToolResult>;
  /** Runs a tool and never throws: a refusal is a result that the model reads. */
  call(name: string, args: unknown, caller: ToolCaller): Promise<ToolResult>;
}

export function createToolset(tools: readonly Tool[], exactTools: readonly string[] = []): Toolset {
  const exactNames = new Set(exactTools);
  const byName = new Map(tools.map((each) => [each.definition.name, each]));
  const definitions = tools.map(({ definition }) => definition);

  async function run(name: string, args: unknown, caller: ToolCaller): Promise<ToolResult> {
    const found = byName.get(name);
    if (found === undefined) {
      throw new AmbitError('REQUEST_INVALID', {
        what: `There is no tool "${name.slice(0, 100)}".`,
        hint: 'Use a tool from tools/list.',
      });
    }
    const { blocks, structured } = await found.run(args, caller);
    return { content: blocks, structuredContent: structured };
  }

  return {
    list: () => definitions,
    has: (name) => byName.has(name),
    isExact: (name) => exactNames.has(name),
    run,
    async call(name, args, caller) {
      try {
        return await run(name, args, caller);
      } catch (error) {
        return createRefusalResult(isAmbitError(error) ? error : new AmbitError('INTERNAL', { cause: error }));
      }
    },
  };
}
