import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Journal, JournalEntry } from '../../../src/observability/journal/journal.ts';
import type { Log } from '../../../src/observability/log/log.ts';
import { readMessage } from '../../../src/protocol/message.ts';
import type { Offer, OpenAskAs } from '../../../src/upstreams/catalog/offer.ts';
import { createPinnedTools } from '../../../src/upstreams/pins/pinned-tools.ts';
import { createProject, type Project } from './project.ts';

let project: Project;
beforeEach(() => {
  project = createProject();
});
afterEach(() => project.remove());

function offerOf(count: number): Offer {
  const tools = Array.from({ length: count }, (_, at) => JSON.stringify({ name: `t${at}${'x'.repeat(200)}` }));
  return { tools, prompts: [], templates: [], hasResources: false, at: 0 };
}

const query = { capabilities: '{}' };

const unsound = [
  '{"Name":"add2","Description":"EVIL"}',
  '{"name":7,"description":"EVIL"}',
  '{"description":"EVIL"}',
  '{"name":"b","description":"fine","Description":"EVIL"}',
  '{"name":"c","description\\u0000":"EVIL"}',
  '{"name":"add","inputSchema":{"properties":{"a":{"description":"EVIL","description":"a number"}}}}',
  '{"name":"e","inputSchema":{"enum":[{"x":"EVIL","\\u0078":1}]}}',
  '["name"]',
];

test('S2: of an approved server an entry that has no name, or is not the same to all readers, is withheld', async () => {
  const declared = (await project.declare({ nice: { command: 'node', args: ['-v'] } })).get('nice');
  if (declared === undefined) throw new Error('not declared');
  await project.approvals.approve(declared);
  const entries: JournalEntry[] = [];
  const journal = { record: (entry: JournalEntry) => void entries.push(entry) } as Journal;
  const log = { warn: () => {} } as unknown as Log;
  const { filter } = createPinnedTools(project.approvals, journal, log);
  const sound = '{"name":"add","inputSchema":{"properties":{"a":{"description":"a number"},"A":{},"__proto__":{}}}}';
  const offer: Offer = { ...offerOf(0), tools: [sound] };
  expect((await filter(declared, offer, query)).tools).toEqual([sound]);
  for (const entry of unsound) {
    const turned = { ...offer, tools: [sound, entry] };
    for (const _ of [1, 2]) expect((await filter(declared, turned, query)).tools, entry).toEqual([sound]);
    expect(entries.splice(0), entry).toEqual([
      { kind: 'gateway', event: 'tools-withheld', server: 'nice', tools: expect.any(String) },
    ]);
  }
  expect((await filter(declared, { ...offer, unclearTools: 2 }, query)).tools).toEqual([sound]);
  expect(entries).toEqual([{ kind: 'gateway', event: 'tools-withheld', server: 'nice', tools: expect.any(String) }]);
  expect((await filter({ ...declared, source: 'operator' }, { ...offer, tools: unsound }, query)).tools).toEqual(
    unsound,
  );
});

test('more tools than can be approved are withheld, and leave the approvals of others alone', async () => {
  const declared = await project.declare({
    nice: { command: 'node', args: ['-v'] },
    bloat: { command: 'node', args: ['-v'] },
  });
  const [nice, bloat] = ['nice', 'bloat'].map((name) => declared.get(name));
  if (nice === undefined || bloat === undefined) throw new Error('not declared');
  await project.approvals.approve(nice);
  await project.approvals.approve(bloat);
  const entries: JournalEntry[] = [];
  const warnings: string[] = [];
  const journal = { record: (entry: JournalEntry) => void entries.push(entry) } as Journal;
  const log = { warn: (event: string) => void warnings.push(event) } as unknown as Log;
  const { filter, wasPinnedHere } = createPinnedTools(project.approvals, journal, log);
  const offer = offerOf(2001);
  for (const _ of [1, 2]) {
    const { tools, withheld } = await filter(bloat, offer, query);
    expect([tools.length, withheld.length]).toEqual([0, 2001]);
  }
  expect(wasPinnedHere('bloat')).toBe(false);
  expect(warnings).toEqual(['tools cannot be pinned and are withheld']);
  expect(entries).toEqual([
    { kind: 'gateway', event: 'tools-withheld', server: 'bloat', tools: expect.stringMatching(/ and 1981 more$/) },
  ]);
  expect(String(entries[0]?.['tools']).length).toBeLessThan(2500);
  // What a server says again and again is told once.
  for (const _ of [1, 2]) await filter(nice, { ...offerOf(3), leftOutTemplates: true }, query);
  expect(warnings.slice(1)).toEqual(['resource templates are left out']);
  expect((await filter(nice, offerOf(3), query)).tools).toHaveLength(3);
  expect(project.approvals.check(nice)).toEqual({ state: 'approved' });
  expect((await filter(bloat, offerOf(3), query)).tools).toHaveLength(3);
});

test('the first listing asks as other clients too; what fails is not pinned, and nothing is asked twice', async () => {
  const declared = (await project.declare({ nice: { command: 'node', args: ['-v'] } })).get('nice');
  if (declared === undefined) throw new Error('not declared');
  await project.approvals.approve(declared);
  const warnings: string[] = [];
  const journal = { record: () => {} } as unknown as Journal;
  const log = { warn: (event: string) => void warnings.push(event) } as unknown as Log;
  const { filter } = createPinnedTools(project.approvals, journal, log);
  const [own, plain, wide] = ['{"name":"own"}', '{"name":"plain"}', '{"name":"wide"}'];
  const asked: string[] = [];
  let open = 0;
  const askAs: OpenAskAs = (capabilities) => {
    asked.push(capabilities);
    open++;
    const ask = async () => {
      if (capabilities !== '{}') throw new Error('does not start');
      return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"tools":[${plain}]}}`));
    };
    return { ask, close: () => open-- };
  };
  const query = { capabilities: '{"roots":{}}', askAs };
  const offering = (tool: string): Offer => ({ ...offerOf(0), tools: [tool] });
  const together = await Promise.all([1, 2].map(() => filter(declared, offering(own), query)));
  expect(together.map(({ tools }) => tools)).toEqual([[own], [own]]);
  expect(asked.map((each) => Object.keys(JSON.parse(each)))).toEqual([
    [],
    ['elicitation', 'extensions', 'roots', 'sampling', 'tasks'],
  ]);
  expect(warnings).toEqual(['tools for other clients not listed']);
  expect((await filter(declared, offering(plain), query)).tools).toEqual([plain]);
  expect((await filter(declared, offering(wide), query)).withheld).toEqual(['wide']);
  expect([asked.length, open]).toEqual([2, 0]);
});

test('S2: the text of a first list is kept, unless it was made with the credentials of a user', async () => {
  const declared = await project.declare({
    nice: { command: 'node', args: ['-v'] },
    own: { command: 'node', args: ['-v'] },
  });
  const log = { warn: () => {} } as unknown as Log;
  const { filter } = createPinnedTools(project.approvals, { record: () => {} } as unknown as Journal, log);
  const offer = { ...offerOf(0), tools: ['{"name":"add","description":"Adds for ada@example.com"}'] };
  const owners = {
    nice: { key: 'all', userId: '' },
    own: { key: 'ada', userId: 'ada', hasCredentials: true },
  } as const;
  for (const [name, owner] of Object.entries(owners)) {
    const server = declared.get(name);
    if (server === undefined) throw new Error('not declared');
    await project.approvals.approve(server);
    expect((await filter(server, offer, { ...query, owner })).tools).toEqual(offer.tools);
    expect(project.approvals.hasPinnedTools(name)).toBe(true);
  }
  expect([...(project.approvals.texts.read('nice')?.values() ?? [])]).toEqual(['"Adds for ada@example.com"']);
  expect(project.approvals.texts.read('own')).toBeUndefined();
});
