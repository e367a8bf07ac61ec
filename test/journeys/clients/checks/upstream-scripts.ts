import { join } from 'node:path';

export interface ToolCall {
  readonly tool: string;
  readonly args?: Record<string, unknown>;
}

/** The requests for one upstream with the expected answers; a text instead gives the reason why it cannot. */
export interface Script {
  readonly tools: readonly string[];
  readonly call: ToolCall & { readonly says: string };
  readonly progress: string | (ToolCall & { readonly steps: readonly { progress: number; total: number }[] });
  /** A tool that takes its time, or one that waits for the other end of a named pipe. */
  readonly cancel: string | (ToolCall & { readonly pipe?: string });
  readonly logging: string | Logging;
  readonly resources: string | { readonly uri: string; readonly says: string };
  readonly templates: string | { readonly template: string; readonly uri: string; readonly says: string };
  /** A resource that changes when `change` is called. */
  readonly subscribe: string | { readonly uri: string; readonly change: ToolCall; readonly stop?: ToolCall };
  readonly prompts: string | { readonly name: string; readonly args: Record<string, string>; readonly says: string };
  readonly completion:
    | string
    | { readonly prompt: string; readonly argument: string; readonly value: string; readonly says: readonly string[] };
  readonly elicitation: string | (ToolCall & { readonly says: string });
  readonly sampling: string | (ToolCall & { readonly says: string });
  /** A tool that tells the client's roots; `keeps` when it asks for them only once unless told of a change. */
  readonly roots: string | (ToolCall & { readonly keeps: boolean });
  /** The new entry of the list is the answer of the tool, unless `shows` says otherwise. */
  readonly listChanged: string | (ToolCall & { readonly method: string; readonly shows?: string });
}

export interface Logging extends ToolCall {
  readonly lines: readonly string[] | RegExp;
  /** It logs whatever the level. */
  readonly always?: true;
  /** The beginning of the addresses of resources; subscribing to one is logged. */
  readonly subscribes?: string;
}

const none = 'The server does not offer this feature.';
const quick = 'The server has no call that takes long enough to be cancelled.';
export const steps = (values: readonly number[], total: number) => values.map((progress) => ({ progress, total }));
export const nothing = {
  progress: none,
  cancel: quick,
  logging: none,
  resources: none,
  templates: none,
  subscribe: none,
  prompts: none,
  completion: none,
  elicitation: none,
  sampling: none,
  roots: none,
  listChanged: none,
} as const;

const operation = { tool: 'trigger-long-running-operation', args: { duration: 0.2, steps: 4 } };

export const everything = {
  tools: ['echo', 'get-sum', 'trigger-long-running-operation', 'trigger-sampling-request', 'get-roots-list'],
  call: { tool: 'get-sum', args: { a: 2, b: 40 }, says: 'The sum of 2 and 40 is 42.' },
  progress: { ...operation, steps: steps([1, 2, 3, 4], 4) },
  cancel: operation,
  logging: {
    tool: 'toggle-simulated-logging',
    lines: /level.message/,
    subscribes: 'demo://resource/dynamic/text/',
  },
  resources: { uri: 'demo://resource/static/document/features.md', says: '# Everything Server' },
  templates: {
    template: 'demo://resource/dynamic/text/{resourceId}',
    uri: 'demo://resource/dynamic/text/7',
    says: 'Resource 7: This is a plaintext resource',
  },
  subscribe: {
    uri: 'demo://resource/dynamic/text/1',
    change: { tool: 'toggle-subscriber-updates' },
    stop: { tool: 'toggle-subscriber-updates' },
  },
  prompts: { name: 'args-prompt', args: { city: 'Turin' }, says: "What's weather in Turin?" },
  completion: { prompt: 'completable-prompt', argument: 'department', value: 'S', says: ['Sales', 'Support'] },
  elicitation: { tool: 'trigger-elicitation-request', says: '- Name: Ada' },
  sampling: { tool: 'trigger-sampling-request', args: { prompt: 'Say it back', maxTokens: 10 }, says: 'Say it back>' },
  roots: { tool: 'get-roots-list', keeps: true },
  listChanged: {
    tool: 'gzip-file-as-resource',
    args: { name: 'note.gz', data: 'data:text/plain,hello', outputType: 'resourceLink' },
    method: 'notifications/resources/list_changed',
    shows: 'note.gz',
  },
} satisfies Script;

export const fixture = {
  tools: ['test_simple_text', 'test_sampling', 'test_dynamic_tool'],
  call: { tool: 'test_simple_text', says: 'This is a simple text response for testing.' },
  progress: { tool: 'test_tool_with_progress', steps: steps([0, 50, 100], 100) },
  cancel: { tool: 'test_tool_with_progress' },
  logging: {
    tool: 'test_tool_with_logging',
    lines: ['Tool execution started', 'Tool processing data', 'Tool execution completed'],
  },
  resources: { uri: 'test://static-text', says: 'This is the content of the static text resource.' },
  templates: { template: 'test://template/{id}/data', uri: 'test://template/7/data', says: '7' },
  subscribe: { uri: 'test://watched-resource', change: { tool: 'test_trigger_resource_update' } },
  prompts: {
    name: 'test_prompt_with_arguments',
    args: { arg1: 'one', arg2: 'two' },
    says: "Prompt with arguments: arg1='one', arg2='two'",
  },
  completion: {
    prompt: 'test_prompt_with_arguments',
    argument: 'arg1',
    value: 'par',
    says: ['paris', 'park', 'party'],
  },
  elicitation: {
    tool: 'test_elicitation',
    args: { message: 'Who are you?' },
    says: 'User response: action=accept, content={"username":"ada","email":"ada@example.com"}',
  },
  sampling: { tool: 'test_sampling', args: { prompt: 'Say it back' }, says: 'I heard <Say it back>' },
  roots: { tool: 'test_input_required_result_list_roots', keeps: false },
  listChanged: { tool: 'test_trigger_tool_change', method: 'notifications/tools/list_changed' },
} satisfies Script;

/** `folder` holds note.txt, and a named pipe that a reader waits at. */
export const filesystem = (folder: string): Script => ({
  ...nothing,
  tools: ['read_text_file', 'write_file', 'list_allowed_directories'],
  call: { tool: 'read_text_file', args: { path: join(folder, 'note.txt') }, says: 'a note' },
  cancel: { tool: 'read_text_file', args: { path: join(folder, 'pipe') }, pipe: join(folder, 'pipe') },
  roots: { tool: 'list_allowed_directories', keeps: true },
});
