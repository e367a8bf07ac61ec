import { setTimeout as pause } from 'node:timers/promises';
import { ZodJsonSchemaAdapter } from '@tmcp/adapter-zod';
import { StdioTransport } from '@tmcp/transport-stdio';
import { McpServer } from 'tmcp';
import { complete, prompt, resource, tool } from 'tmcp/utils';
import { z } from 'zod';

// The same few things as the other servers here, said in the words of tmcp.
const server = new McpServer(
  { name: 'tiny', version: '1.0.0', description: 'tiny' },
  {
    adapter: new ZodJsonSchemaAdapter(),
    capabilities: {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      completions: {},
      logging: {},
    },
  },
);
const add = (name, schema, execute) =>
  server.tool({ name, description: name, replayable: true, ...(schema && { schema }) }, async (args) =>
    tool.text(await execute(args)),
  );

add('add', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => `${a} + ${b} = ${a + b}`);
add('steps', undefined, async () => {
  for (const progress of [1, 2, 3]) {
    server.progress(progress, 3);
    await pause(60);
  }
  return 'done';
});
add('logs', undefined, () => {
  for (const line of ['one', 'two', 'three']) server.log('info', line);
  return 'logged';
});
add('asks', undefined, async () => {
  const { content } = await server.elicitation('Who?', z.object({ name: z.string() }));
  return `You are ${content.name}`;
});
add('thinks', undefined, async () => {
  const messages = [{ role: 'user', content: { type: 'text', text: 'Say it back' } }];
  return JSON.stringify((await server.message({ messages, maxTokens: 10 })).content);
});
add('roots', undefined, async () => {
  await server.refreshRoots();
  return JSON.stringify(server.roots);
});
add('touches', undefined, () => {
  server.changed('resource', 'tiny://note');
  return 'touched';
});
add('grows', undefined, () => {
  const uri = `tiny://note/${Date.now()}`;
  server.resource({ name: uri, description: 'more', uri }, () => resource.text(uri, 'more'));
  return uri;
});
server.resource({ name: 'note', description: 'note', uri: 'tiny://note' }, (uri) => resource.text(uri, 'a note'));
server.template({ name: 'page', description: 'page', uri: 'tiny://page/{number}' }, (uri, { number }) =>
  resource.text(uri, `page ${number}`),
);
const cities = ['Paris', 'Parma', 'Turin'];
const city = (value) => complete.values(cities.filter((each) => each.startsWith(value)));
server.prompt(
  { name: 'weather', description: 'weather', schema: z.object({ city: z.string() }), complete: { city } },
  (args) => prompt.message(`The weather in ${args.city}?`),
);
new StdioTransport(server).listen();
