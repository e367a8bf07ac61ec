import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { InMemoryClientRequestAdapter, InMemorySessionAdapter, McpServer, StreamableHttpTransport } from 'mcp-lite';
import { z } from 'zod';

// The same few things as the other servers here, said in the words of mcp-lite, over HTTP.
const mcp = new McpServer({ name: 'lite', version: '1.0.0', schemaAdapter: (schema) => z.toJSONSchema(schema) });
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const tool = (name, inputSchema, execute) =>
  mcp.tool(name, { description: name, inputSchema, handler: async (args, ctx) => text(await execute(args, ctx)) });
const none = z.object({});

tool('add', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => `${a} + ${b} = ${a + b}`);
tool('steps', none, async (_args, ctx) => {
  for (const progress of [1, 2, 3]) {
    await ctx.progress?.({ progress, total: 3 });
    await pause(60);
  }
  return 'done';
});
tool('asks', none, async (_args, ctx) => {
  const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
  const { content } = await ctx.elicit({ message: 'Who?', schema });
  return `You are ${content.name}`;
});
tool('thinks', none, async (_args, ctx) => {
  return JSON.stringify(await ctx.sample({ prompt: 'Say it back', maxTokens: 10 }));
});
tool('grows', none, () => {
  const name = `grown-${Date.now()}`;
  tool(name, none, () => 'grown');
  return name;
});
mcp.resource('lite://note', { name: 'note' }, (uri) => ({ contents: [{ uri: uri.href, text: 'a note' }] }));
mcp.resource('lite://page/{number}', { name: 'page' }, (uri, { number }) => ({
  contents: [{ uri: uri.href, text: `page ${number}` }],
}));
mcp.prompt('weather', {
  arguments: z.object({ city: z.string() }),
  handler: ({ city }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `The weather in ${city}?` } }],
  }),
});

const sessionAdapter = new InMemorySessionAdapter({ maxEventBufferSize: 100 });
const handle = new StreamableHttpTransport({
  sessionAdapter,
  clientRequestAdapter: new InMemoryClientRequestAdapter(),
}).bind(mcp);
const listener = createServer(async (request, response) => {
  const body = request.method === 'POST' ? { body: Readable.toWeb(request), duplex: 'half' } : {};
  const url = `http://${request.headers.host}${request.url}`;
  const answer = await handle(new Request(url, { method: request.method, headers: request.headers, ...body }));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.flushHeaders();
  if (answer.body === null) response.end();
  else
    Readable.fromWeb(answer.body)
      .on('error', () => {})
      .pipe(response);
});
listener.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${listener.address().port}/mcp` })}\n`);
});
// Ends with the test that started it.
process.once('disconnect', () => process.exit());
