import { join } from 'node:path';

/** The requests for one upstream with the expected answers. Missing features are left out. */
export interface Script {
  readonly tools: readonly string[];
  readonly call: ToolCall & { readonly says: string };
  /** A tool that reports progress. */
  readonly steps?: ToolCall & { readonly progress: readonly { progress: number; total: number }[] };
  /** A tool that waits for the other end of a named pipe. */
  readonly blocks?: ToolCall & { readonly pipe: string };
  readonly resource?: { readonly uri: string; readonly says: string; readonly template: string };
  /** A resource that changes when `change` is called. */
  readonly watched?: { readonly uri: string; readonly change: ToolCall; readonly stop?: ToolCall };
  /** Log lines and what brings them about: a tool, or subscribing to a resource. */
  readonly logging?: { readonly tool: string; readonly lines: readonly string[] } | { readonly subscribes: string };
  readonly prompt?: { readonly name: string; readonly args: Record<string, string>; readonly says: string };
  readonly completion?: readonly [prompt: string, argument: string, value: string, expected: readonly string[]];
  readonly sampling?: ToolCall & { readonly says: string };
  readonly elicitation?: ToolCall & { readonly says: string };
  /** A tool that tells the client's roots. */
  readonly roots?: ToolCall;
  readonly changed?: ToolCall & { readonly method: string };
}

export interface ToolCall {
  readonly tool: string;
  readonly args?: Record<string, unknown>;
}

const steps = (values: readonly number[], total: number) => values.map((progress) => ({ progress, total }));

export const everything: Script = {
  tools: ['echo', 'get-sum', 'trigger-long-running-operation', 'trigger-sampling-request', 'get-roots-list'],
  call: { tool: 'get-sum', args: { a: 2, b: 40 }, says: 'The sum of 2 and 40 is 42.' },
  steps: {
    tool: 'trigger-long-running-operation',
    args: { duration: 0.2, steps: 4 },
    progress: steps([1, 2, 3, 4], 4),
  },
  resource: {
    uri: 'demo://resource/dynamic/text/7',
    says: 'Resource 7: This is a plaintext resource',
    template: 'demo://resource/dynamic/text/{resourceId}',
  },
  watched: {
    uri: 'demo://resource/dynamic/text/1',
    change: { tool: 'toggle-subscriber-updates' },
    stop: { tool: 'toggle-subscriber-updates' },
  },
  logging: { subscribes: 'demo://resource/dynamic/text/2' },
  prompt: { name: 'args-prompt', args: { city: 'Turin' }, says: "What's weather in Turin?" },
  completion: ['completable-prompt', 'department', 'S', ['Sales', 'Support']],
  sampling: { tool: 'trigger-sampling-request', args: { prompt: 'Say it back', maxTokens: 10 }, says: 'Say it back>' },
  elicitation: { tool: 'trigger-elicitation-request', says: '- Name: Ada' },
  roots: { tool: 'get-roots-list' },
  changed: {
    tool: 'gzip-file-as-resource',
    args: { name: 'note.gz', data: 'data:text/plain,hello', outputType: 'resourceLink' },
    method: 'notifications/resources/list_changed',
  },
};

export const fixture: Script = {
  tools: ['test_simple_text', 'test_sampling', 'test_dynamic_tool'],
  call: { tool: 'test_simple_text', says: 'This is a simple text response for testing.' },
  steps: { tool: 'test_tool_with_progress', progress: steps([0, 50, 100], 100) },
  resource: {
    uri: 'test://static-text',
    says: 'This is the content of the static text resource.',
    template: 'test://template/{id}/data',
  },
  watched: { uri: 'test://watched-resource', change: { tool: 'test_trigger_resource_update' } },
  logging: {
    tool: 'test_tool_with_logging',
    lines: ['Tool execution started', 'Tool processing data', 'Tool execution completed'],
  },
  prompt: {
    name: 'test_prompt_with_arguments',
    args: { arg1: 'one', arg2: 'two' },
    says: "Prompt with arguments: arg1='one', arg2='two'",
  },
  completion: ['test_prompt_with_arguments', 'arg1', 'par', ['paris', 'park', 'party']],
  sampling: { tool: 'test_sampling', args: { prompt: 'Say it back' }, says: 'I heard <Say it back>' },
  elicitation: {
    tool: 'test_elicitation',
    args: { message: 'Who are you?' },
    says: 'User response: action=accept, content={"username":"ada","email":"ada@example.com"}',
  },
  roots: { tool: 'test_input_required_result_list_roots' },
  changed: { tool: 'test_trigger_tool_change', method: 'notifications/tools/list_changed' },
};

/** `folder` holds note.txt, and a named pipe that a reader waits at. */
export const filesystem = (folder: string): Script => ({
  tools: ['read_text_file', 'write_file', 'list_allowed_directories'],
  call: { tool: 'read_text_file', args: { path: join(folder, 'note.txt') }, says: 'a note' },
  blocks: { tool: 'read_text_file', args: { path: join(folder, 'pipe') }, pipe: join(folder, 'pipe') },
  roots: { tool: 'list_allowed_directories' },
});
