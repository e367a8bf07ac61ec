import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { expect } from 'vitest';
import { repository } from '../../structure/source-files.ts';

export const workflowScript = join(repository, 'examples', 'workflow', 'server.js');

export const createWorkflowClient = (mode: 'auto' | 'legacy') =>
  new Client({ name: 'workflow', version: '1' }, { versionNegotiation: { mode } });

export type CallTool = (name: string, args?: Record<string, unknown>) => Promise<{ text: string; isError: boolean }>;

export function createCaller(connected: Client, prefix = ''): CallTool {
  return async (name, args = {}) => {
    const result = await connected.callTool({ name: `${prefix}${name}`, arguments: args });
    return { text: (result.content as { text: string }[])[0]?.text ?? '', isError: result.isError === true };
  };
}

/** The four chained calls, with a look at what happens out of order. */
export async function runWorkflow(call: CallTool, title: string, user: string): Promise<void> {
  expect(await call('add_source', { source: 'too early' })).toMatchObject({ isError: true });
  expect((await call('start_report', { title })).text).toMatch(/^Started/);
  expect((await call('start_report', { title: 'another' })).text).toBe(`"${title}" is under way: publish it first.`);
  expect(await call('publish_report')).toMatchObject({ isError: true });
  await call('add_source', { source: `${title}: a book` });
  expect((await call('add_source', { source: `${title}: a letter` })).text).toMatch(/^2 so far/);
  const report = `${title}\n[1] ${title}: a book\n[2] ${title}: a letter`;
  expect((await call('draft_report')).text).toBe(`${report}\n\nNext: publish_report.`);
  expect((await call('publish_report')).text).toBe(`Published for ${user}:\n${report}`);
  expect(await call('publish_report')).toMatchObject({ isError: true });
}
