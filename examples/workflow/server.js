// A workflow of four calls that build on one another: start a report, add sources, draft it, publish it. What each call
// leaves for the next lies in the state of the session, so two sessions never meet, and nothing has to be passed along.
// Alone on stdio the session is this process's own; behind Ambit it is Ambit's. The code is the same.

import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { currentSession } from 'ambit-mcp/sdk';
import { withSessions } from 'ambit-mcp/server';
import { z } from 'zod';

const key = 'report';

const say = (text) => ({ content: [{ type: 'text', text }] });
const refuse = (text) => ({ ...say(text), isError: true });

/** Another call may be writing at the same time: what is changed is always what is there now. */
async function change(next) {
  const { value } = await currentSession().state.update(key, (report) => {
    if (report === undefined) throw new Error('There is no report yet: call start_report first.');
    return next(report);
  });
  return value;
}

function buildServer() {
  // First of all, before anything is registered.
  const server = withSessions(new McpServer({ name: 'workflow', version: '1.0.0' }));

  server.registerTool(
    'start_report',
    { description: 'Begins a report in this session', inputSchema: z.object({ title: z.string().min(1).max(200) }) },
    async ({ title }) => {
      const { state } = currentSession();
      const started = await state.get(key);
      if (started !== undefined) return refuse(`"${started.value.title}" is under way: publish it first.`);
      // Of two calls that both found nothing, one is told that it was too late.
      await state.set(key, { title, sources: [], draft: null }, { expectedVersion: 0 });
      return say(`Started "${title}". Next: add_source.`);
    },
  );

  server.registerTool(
    'add_source',
    { description: 'Adds a source to the report', inputSchema: z.object({ source: z.string().min(1).max(500) }) },
    async ({ source }) => {
      const { sources } = await change((report) => ({ ...report, sources: [...report.sources, source], draft: null }));
      return say(`${sources.length} so far. Next: add_source again, or draft_report.`);
    },
  );

  server.registerTool('draft_report', { description: 'Writes the draft from the sources' }, async () => {
    const { draft } = await change((report) => {
      if (report.sources.length === 0) throw new Error('There are no sources yet: call add_source first.');
      return {
        ...report,
        draft: `${report.title}\n${report.sources.map((each, i) => `[${i + 1}] ${each}`).join('\n')}`,
      };
    });
    return say(`${draft}\n\nNext: publish_report.`);
  });

  server.registerTool('publish_report', { description: 'Publishes the draft, and is done with it' }, async () => {
    const { state, sessionId, userId } = currentSession();
    const report = await state.get(key);
    if (!report?.value.draft) return refuse('There is no draft yet: call draft_report first.');
    await state.delete(key, { expectedVersion: report.version });
    process.stderr.write(`workflow: session=${sessionId.slice(0, 8)} published for ${userId}\n`);
    return say(`Published for ${userId}:\n${report.value.draft}`);
  });

  return server;
}

serveStdio(buildServer);
