import { afterAll, beforeAll, expect, test } from 'vitest';
import { eras, openBoundedGateway } from '../bounded-gateway.ts';
import { type EchoingUpstream, startEchoUpstream } from '../echoing-upstream.ts';

const on = openBoundedGateway();
const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
const letters = [...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~%'];
/** In the order of the configuration: what takes from others stands first. */
const offers: Readonly<Record<string, { resources: readonly string[]; templates: readonly string[] }>> = {
  greedy: {
    resources: ['own:///1', 'ambit://inbox'],
    templates: ['{+x}', '{x}', '{scheme}://{+rest}', 'ambit+notes:{+x}'],
  },
  thief: {
    resources: ['files://x/1', 'ambit+notes:odd:///1'],
    templates: letters.map((c) => `vault://docs/${c}{rest}`),
  },
  vault: { resources: ['vault://other/1'], templates: ['vault://docs/{id}'] },
  files: { resources: ['files://x/1', 'files://y/1'], templates: [] },
  notes: { resources: ['note:///1', 'odd:///1'], templates: ['note:///{n}'] },
  wide: { resources: [], templates: ['wide://{+rest}', 'both:{a}'] },
  other: { resources: ['wide:///special'], templates: ['both:{b}'] },
  heavy: {
    resources: [],
    templates: Array.from({ length: 300 }, (_, n) => `z:{x}${'a'.repeat(500)}b${'a'.repeat(500)}{y${n}}`),
  },
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
    upstreams.push(await startEchoUpstream((method, params) => answer(name, method, params)));
  }
});
afterAll(() => Promise.all(upstreams.map((each) => each.close())));

/** A client of all servers, and what it is told when it reads. */
async function connected(era: (typeof eras)[number]) {
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
  return { client, read };
}

test.each(eras)('S3: in the %s era no server takes the address of another', async (era) => {
  const { read } = await connected(era);
  // Neither by words that say more of it, nor by coming first, nor by listing what the other only has a template for.
  for (const [uri, ...claimants] of [
    ['vault://docs/a-secret', 'thief', 'vault'],
    ['VAULT://user@D%4FCS:/a-secret', 'thief', 'vault'],
    ['files://x/1', 'thief', 'files'],
    ['wide:///special', 'wide', 'other'],
    ['both:7', 'wide', 'other'],
  ] as const) {
    const refused = await read(uri);
    for (const name of claimants) expect(refused).toMatch(new RegExp(`\\b${name}\\b`));
    expect(refused).toContain('"ambit+');
    expect(refused).not.toContain('secret');
    for (const name of claimants) expect(await read(`ambit+${name}:${uri}`)).toBe(`${name} ${uri}`);
  }
  // Where only one server uses the scheme and the authority, its addresses need no name.
  expect(await read('vault://other/1')).toBe('vault vault://other/1');
  expect(await read('files://y/1')).toBe('files files://y/1');
  expect(await read('note:///7')).toBe('notes note:///7');
  expect(await read('wide://elsewhere/7')).toBe('wide wide://elsewhere/7');
  // What says nothing in its own words takes what nobody else has anything to do with.
  expect(await read('free:///7')).toBe('greedy free:///7');
  for (const uri of ['odd:///7', 'ODD:///7', ' odd:///7', 'ambit+gone:odd:///7', 'AMBIT+gone:odd:///7']) {
    expect(await read(uri)).toBe('Resource not found');
  }
  expect(await read('AMBIT+notes:odd:///1')).toBe('notes odd:///1');
});

test.each(eras)('S3: in the %s era an address from a list is read from the server that listed it', async (era) => {
  const { client, read } = await connected(era);
  const listed = async (what: string, member: string, key: string) => {
    const { result } = await client.request(what);
    return ((result?.[member] ?? []) as Record<string, string>[]).map((entry) => entry[key] ?? '');
  };
  const all = await listed('resources/list', 'resources', 'uri');
  expect(all.at(-1)).toBe('ambit://inbox');
  // A server that lists Ambit's own address gets its name before it.
  const uris = all.slice(0, -1);
  expect(uris).toContain('ambit+greedy:ambit://inbox');
  const byServer = Object.entries(offers).flatMap(([name, { resources }]) => resources.map((uri) => `${name} ${uri}`));
  expect(await Promise.all(uris.map(read))).toEqual(byServer);
  expect(uris.filter((uri) => !uri.startsWith('ambit+'))).toEqual([
    'own:///1',
    'vault://other/1',
    'files://y/1',
    'note:///1',
    'odd:///1',
  ]);
  const templates = await listed('resources/templates/list', 'resourceTemplates', 'uriTemplate');
  expect(templates).toEqual(
    expect.arrayContaining(['ambit+vault:vault://docs/{id}', 'ambit+greedy:{+x}', 'note:///{n}']),
  );
  expect(templates.filter((each) => each.includes('thief'))).toHaveLength(letters.length);
});

test.each(eras)('S7: in the %s era the templates of one server take no more than a part of the work', async (era) => {
  const { client } = await connected(era);
  const { result } = await client.request('resources/templates/list');
  const templates = (result?.['resourceTemplates'] ?? []) as { uriTemplate: string }[];
  expect(templates.filter(({ uriTemplate }) => uriTemplate.startsWith('z:'))).toHaveLength(200);
  const { error } = await client.request('resources/read', { uri: `z:${'a'.repeat(8190)}` });
  expect(error?.message).toBe('Resource not found');
});

test('S7: addresses that take long to compare are refused, and others are served meanwhile', async () => {
  const { client } = await connected('modern');
  const other = await connected('modern');
  await client.request('resources/templates/list');
  const resourceSubscriptions = Array.from({ length: 30 }, (_, n) => `z:${'a'.repeat(8100 + n)}`);
  const order: string[] = [];
  const listening = client
    .request('subscriptions/listen', { notifications: { resourceSubscriptions } })
    .then(({ error }) => order.push(error?.message ?? 'no error'));
  await other.client.request('server/discover').then(() => order.push('served'));
  await listening;
  expect(order).toEqual(['served', expect.stringContaining('templates')]);
});
