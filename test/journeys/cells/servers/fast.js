import { setTimeout as pause } from 'node:timers/promises';
import { FastMCP } from 'fastmcp';
import { z } from 'zod';

// The same few things as the other servers here, said in the words of FastMCP.
const server = new FastMCP({ name: 'fast', version: '1.0.0' });
const none = z.object({});
const note = { uri: 'fast://note', name: 'note', mimeType: 'text/plain', load: async () => ({ text: 'a note' }) };
const tool = (name, parameters, execute) => server.addTool({ name, description: name, parameters, execute });

tool('add', z.object({ a: z.number(), b: z.number() }), async ({ a, b }) => `${a} + ${b} = ${a + b}`);
tool('steps', none, async (_args, { reportProgress, signal }) => {
  for (const progress of [1, 2, 3]) {
    await reportProgress({ progress, total: 3 });
    await pause(60, undefined, { signal });
  }
  return 'done';
});
tool('logs', none, async (_args, { log }) => {
  for (const line of ['one', 'two', 'three']) log.info(line);
  return 'logged';
});
tool('asks', none, async (_args, { elicit }) => {
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
  const { content } = await elicit({ message: 'Who?', requestedSchema });
  return `You are ${content.name}`;
});
tool('thinks', none, async () => {
  const [session] = server.sessions;
  const messages = [{ role: 'user', content: { type: 'text', text: 'Say it back' } }];
  return JSON.stringify((await session.requestSampling({ messages, maxTokens: 10 })).content);
});
tool('roots', none, async () => JSON.stringify(server.sessions[0].roots));
tool('touches', none, async () => {
  await server.sendResourceUpdated(note.uri);
  return 'touched';
});
tool('grows', none, async () => {
  const uri = `fast://note/${Date.now()}`;
  server.addResource({ ...note, uri, name: uri });
  return uri;
});
server.addResource(note);
server.addResourceTemplate({
  uriTemplate: 'fast://page/{number}',
  name: 'page',
  mimeType: 'text/plain',
  arguments: [{ name: 'number', required: true }],
  load: async ({ number }) => ({ text: `page ${number}` }),
});
const cities = ['Paris', 'Parma', 'Turin'];
const complete = async (value) => ({ values: cities.filter((city) => city.startsWith(value)) });
server.addPrompt({
  name: 'weather',
  arguments: [{ name: 'city', required: true, complete }],
  load: async ({ city }) => `The weather in ${city}?`,
});
await server.start({ transportType: 'stdio' });
