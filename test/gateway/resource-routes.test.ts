import { afterAll, beforeAll, expect, test } from 'vitest';
import { boundedGateway, eras } from './bounded-gateway.ts';
import { type EchoingUpstream, echoingUpstream } from './echoing-upstream.ts';

const on = boundedGateway();
const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
/** In the order of the configuration: what takes everything stands first. */
const offers: Readonly<Record<string, { resources: readonly string[]; templates: readonly string[] }>> = {
  greedy: { resources: ['own:///1'], templates: ['{+x}', '{x}', '{scheme}://{+rest}', 'ambit+notes:{+x}'] },
  notes: { resources: ['note:///1', 'odd:///1'], templates: ['note:///{n}'] },
  wide: { resources: [], templates: ['note://{+rest}', 'both:{a}'] },
  other: { resources: ['note:///special'], templates: ['both:{b}'] },
};
const upstreams: EchoingUpstream[] = [];

function answer(name: string, method: string, { uri }: { readonly uri?: string }): object | undefined {
  const { resources = [], templates = [] } = offers[name] ?? {};
  if (method === 'server/discover') {
    return { ...hints, supportedVersions: ['2026-07-28'], capabilities: { tools: {}, resources: {} } };
  }
  if (method === 'resources/list') return { ...hints, resources: resources.map((each) => ({ uri: each, name: each })) };
  if (method === 'resources/templates/list') {
    return { ...hints, resourceTemplates: templates.map((uriTemplate) => ({ uriTemplate, name: uriTemplate })) };
  }
  return method === 'resources/read' ? { ...hints, contents: [{ uri, text: `${name} ${uri}` }] } : undefined;
}

beforeAll(async () => {
  for (const name of Object.keys(offers)) {
    upstreams.push(await echoingUpstream((method, params) => answer(name, method, params)));
  }
});
afterAll(() => Promise.all(upstreams.map((each) => each.close())));

test.each(eras)('S3: in the %s era no template takes the address of another server', async (era) => {
  const servers = Object.keys(offers).map((name, at) => [
    name,
    { url: upstreams[at]?.url ?? '', era: 'modern' as const },
  ]);
  await on.start('modern', { servers: Object.fromEntries(servers) });
  const { id } = await on.gateway.createSession();
  const client = await on.connect(id, era);
  const read = async (uri: string) => {
    const { result, error } = await client.request('resources/read', { uri });
    return (result?.['contents'] as { text: string }[] | undefined)?.[0]?.text ?? error?.message;
  };
  // Listed, though nobody has asked for a list yet.
  expect(await read('note:///special')).toBe('other note:///special');
  expect(await read('note:///1')).toBe('notes note:///1');
  // The template that says most of it in its own words.
  expect(await read('note:///7')).toBe('notes note:///7');
  expect(await read('note://elsewhere/7')).toBe('wide note://elsewhere/7');
  // What says nothing in its own words takes what nobody else has anything to do with.
  expect(await read('free:///7')).toBe('greedy free:///7');
  expect(await read('odd:///7')).toBe('Resource not found');
  expect(await read('ODD:///7')).toBe('Resource not found');
  const both = await read('both:7');
  expect(both).toMatch(/wide/);
  expect(both).toMatch(/other/);
  // Whoever says which server is meant gets that one.
  expect(await read('ambit+other:both:7')).toBe('other both:7');
  expect(await read('ambit+notes:note:///7')).toBe('notes note:///7');
});
