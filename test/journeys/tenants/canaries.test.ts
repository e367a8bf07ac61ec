import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { type Canary, createCanaries, type Identity, isReadableBy } from './canary.ts';
import type { Tenant } from './tenant.ts';
import { startTenantGateway, type TenantGateway } from './tenant-gateway.ts';

const canaries = createCanaries();
let world: TenantGateway;
let tenants: Tenant[];
let found: Map<string, Canary[]>;

const atOnce = 8;

type Row = Omit<Identity, 'number'>;

/**
 * Where the gateway may keep or show what a tenant wrote, beside the workspace. What is not in the table may lie
 * nowhere: arguments, results, headers, answers to questions; and credentials, which the store holds sealed.
 */
const mayLieIn: Readonly<Record<string, string>> = {
  sessionName: 'store folders journal admin webhook',
  agentId: 'store journal admin webhook',
  metadata: 'store log admin webhook',
  policy: 'store admin',
  clientInfo: 'store',
  task: 'store admin webhook',
  message: 'store',
  report: 'store',
  sharedKey: 'store',
  sharedState: 'store',
  stateKey: 'store',
  stateName: 'store',
  stateValue: 'store',
  // The search for sessions finds them by files and tools.
  fileName: 'store folders catalog.json journal search',
  fileText: 'folders catalog.json search',
  missingFile: 'journal',
  toolName: 'store journal log admin',
  promptName: 'journal log admin',
  resourceUri: 'journal log admin',
  method: 'journal log admin',
  stderr: 'journal log',
};

/**
 * Data that outlives the tenant: the journal, the session record, folders that were not merged; and keys of documents, which
 * the feed of changes keeps for a minute.
 */
const mayStayIn: Readonly<Record<string, string>> = {
  journal: 'agentId fileName method missingFile promptName resourceUri sessionName stderr toolName',
  search: 'fileName fileText',
  store: 'agentId metadata policy sessionName sharedKey task',
  folders: 'fileName fileText sessionName',
};

const repeated = [
  ...['argument', 'argumentName', 'argumentOfFailure', 'argumentOfError', 'argumentOfLog', 'argumentOfProgress'],
  ...[
    'argumentOfGarbage',
    'argumentOfQuestion',
    'argumentOfChange',
    'elicitationAnswer',
    'clientInfo',
    'progressToken',
  ],
  ...['meta', 'tracestate', 'baggage', 'toolName', 'promptArgument', 'promptName', 'resourceUri', 'completionValue'],
  ...['stateKey', 'sessionName', 'agentId', 'task', 'message', 'report'],
];

/** Each pair of neighbours in the table differs in what must keep them apart. */
const slice: readonly Row[] = [
  { userId: 'ada', workspace: 'garden', trust: 'direct', era: 'modern', entrance: 'http', address: 'all' },
  { userId: 'ada', workspace: 'garden', trust: 'sandboxed', era: 'handshake', entrance: 'stdio', address: 'all' },
  { userId: 'bea', workspace: 'garden', trust: 'direct', era: 'handshake', entrance: 'http', address: 'all' },
  { userId: 'bea', workspace: 'apart', trust: 'direct', era: 'modern', entrance: 'http', address: 'one' },
  { userId: 'bea', workspace: 'apart', trust: 'direct', era: 'handshake', entrance: 'stdio', address: 'one' },
  { userId: 'bea', workspace: '', trust: 'direct', era: 'modern', entrance: 'stdio', address: 'one' },
];

function everyRow(): Row[] {
  return (['ada', 'bea'] as const).flatMap((userId) =>
    (['garden', 'kitchen', 'apart', ''] as const).flatMap((workspace) =>
      (['direct', 'sandboxed'] as const).flatMap((trust) =>
        (['modern', 'handshake'] as const).flatMap((era) =>
          (['http', 'stdio'] as const).flatMap((entrance) =>
            (['all', 'one'] as const).map((address) => ({ userId, workspace, trust, era, entrance, address })),
          ),
        ),
      ),
    ),
  );
}

beforeAll(async () => {
  world = await startTenantGateway(canaries);
  const rows = (proof ? everyRow() : slice).filter(({ trust }) => trust === 'direct' || hasBwrap());
  tenants = await Promise.all(rows.map((row, number) => world.open({ number, ...row })));
  await inBatches((tenant) => tenant.plantEverywhere());
  await inBatches((tenant) => tenant.readEverything(beyondReachOf(tenant).slice(0, 2)));
  found = new Map([...(await world.surfaces())].map(([where, text]) => [where, canaries.in(text)]));
});

afterAll(() => world?.remove());

/** Some at once, so that what they do overlaps. */
async function inBatches(work: (tenant: Tenant) => Promise<void>): Promise<void> {
  for (let from = 0; from < tenants.length; from += atOnce) {
    await Promise.all(tenants.slice(from, from + atOnce).map(work));
  }
}

/** On stdio a direct session reaches those of its user, by the reference. */
function beyondReachOf({ identity }: Tenant): string[] {
  const isLocal = identity.entrance === 'stdio' && identity.trust === 'direct';
  return tenants
    .filter(
      ({ identity: { number, userId } }) => number !== identity.number && !(isLocal && userId === identity.userId),
    )
    .map(({ session }) => session.id);
}

const tell = ({ place, by }: Canary) =>
  `${place} of ${by.number} ${by.userId} ${by.workspace} ${by.trust} ${by.era} ${by.entrance} ${by.address}`;

test('S2: no tenant receives what another has written', () => {
  const leaks = tenants.flatMap(({ identity, received }) =>
    canaries
      .in(received.join('\n'))
      .filter((canary) => !isReadableBy(canary, identity))
      .map((canary) => `${identity.number} ${identity.userId} received: ${tell(canary)}`),
  );
  expect(leaks).toEqual([]);
});

test('planted canaries are repeated to the tenant that planted them, so the search can find them', () => {
  for (const { identity, received } of tenants) {
    const own = canaries.in(received.join('\n')).filter(({ by }) => by.number === identity.number);
    const places = new Set(own.map(({ place }) => place));
    const expected = identity.workspace === '' ? repeated : [...repeated, 'fileName', 'fileText', 'missingFile'];
    expect(
      expected.filter((place) => !places.has(place)),
      `${identity.number} ${identity.userId}`,
    ).toEqual([]);
  }
  const known = new Set(canaries.all().map(({ place }) => place));
  expect(Object.keys(mayLieIn).filter((place) => !known.has(place))).toEqual([]);
});

test('S2: data of a tenant is stored only where the table says', () => {
  const leaks = [...found].flatMap(([where, list]) =>
    list.filter(({ place }) => !mayLieIn[place]?.split(' ').includes(where)).map((each) => `${where}: ${tell(each)}`),
  );
  expect(leaks).toEqual([]);
  // Files of a session's own folder lie in that folder, and no list made of them is written down.
  const byFolder = (where: string) => new Set(found.get(where)?.map(({ by }) => by.workspace));
  expect([...byFolder('folders')]).toEqual(['apart']);
  expect(
    [...byFolder('catalog.json')].filter((workspace) => workspace !== 'garden' && workspace !== 'kitchen'),
  ).toEqual([]);
  expect(byFolder('catalog.json').size).toBeGreaterThan(0);
});

test('S2: after the end of its sessions and users, only records of a tenant are left', async () => {
  const { gateway } = world;
  for (const { session } of tenants) await gateway.sessions.end(session.id);
  for (const user of ['ada', 'bea']) await gateway.people.users.remove(user);
  expect(gateway.credentials.list()).toEqual([]);
  await world.close();
  const left = [...world.onDisk()].flatMap(([where, text]) =>
    canaries
      .in(text)
      .filter(({ place }) => !mayStayIn[where]?.split(' ').includes(place))
      .map((each) => `${where}: ${tell(each)}`),
  );
  expect(left).toEqual([]);
});

test('the search finds a canary however it is encoded, and half of one', () => {
  const text = canaries.plant({ ...(tenants[0] as Tenant).identity, number: -1 }, 'searched');
  const escaped = (prefix: string, digits: number) =>
    [...text].map((each) => prefix + each.charCodeAt(0).toString(16).padStart(digits, '0')).join('');
  const base64 = [0, 1, 2].map((before) => Buffer.from(`${'='.repeat(before)}${text}`).toString('base64'));
  const encoded = [...base64, base64[1]?.replaceAll('/', '_'), Buffer.from(text).toString('hex'), text.toUpperCase()];
  const cut = [
    text.slice(0, 13),
    text.slice(13),
    escaped('%', 2),
    escaped('\\u', 4),
    JSON.stringify(escaped('\\u', 4)),
  ];
  for (const each of [...encoded, ...cut]) {
    expect(
      canaries.in(`some text "${each}" around it`).map(({ place }) => place),
      each,
    ).toEqual(['searched']);
  }
});
