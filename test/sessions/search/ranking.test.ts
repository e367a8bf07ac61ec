import { beforeAll, describe, expect, test } from 'vitest';
import { openIndexInMemory } from './open-index.ts';

interface Work {
  readonly name: string;
  readonly task: string;
  readonly metadata?: Record<string, string>;
  readonly tools?: readonly string[];
  readonly files?: readonly string[];
  readonly messages?: readonly string[];
}

/** The sessions of a team that works on a shop. */
const works: readonly Work[] = [
  {
    name: 'checkout-tax',
    task: 'Compute the sales tax of an order by the state that it is shipped to.',
    files: ['src/checkout/tax.ts', 'src/checkout/tax-rates.json', 'test/checkout/tax.test.ts'],
    tools: ['fs__read_file', 'fs__edit_file'],
    messages: ['Rates for Oregon are zero, please confirm with accounting.'],
  },
  {
    name: 'refund-api',
    task: 'Add an endpoint that refunds a payment, in part or in full.',
    files: ['src/api/refunds.ts', 'src/payments/stripe-client.ts'],
    tools: ['stripe__create_refund', 'fs__edit_file'],
  },
  {
    name: 'login-bug',
    task: 'Users are logged out after a few minutes. Find out why the session cookie expires too early and fix it.',
    files: ['src/auth/cookies.ts', 'src/auth/session-store.ts'],
    tools: ['browser__open', 'fs__edit_file'],
    messages: ['The clock of the second server is five minutes ahead.'],
  },
  {
    name: 'search-index',
    task: 'Make the product search faster: build an index over names and descriptions.',
    files: ['src/search/build-index.ts', 'src/search/tokenize.ts'],
    tools: ['postgres__query', 'fs__write_file'],
  },
  {
    name: 'csv-import',
    task: 'Write a parser for the CSV files of suppliers. It has to cope with quotes and line ends inside of fields.',
    files: ['src/import/csv-parser.ts', 'test/import/csv-parser.test.ts'],
    tools: ['fs__write_file'],
  },
  {
    name: 'dark-mode',
    task: 'Add a dark colour scheme to all pages and remember the choice of the visitor.',
    files: ['web/theme.css', 'web/theme-switch.tsx'],
    tools: ['browser__screenshot'],
  },
  {
    name: 'flaky-tests',
    task: 'The tests of the warehouse module fail about once a day in CI. Find the race.',
    files: ['test/warehouse/reserve.test.ts', 'src/warehouse/reserve.ts'],
    tools: ['github__get_workflow_run', 'shell__run'],
  },
  {
    name: 'upgrade-node',
    task: 'Upgrade Node from 20 to 24 in all Docker images and in CI.',
    files: ['Dockerfile', '.github/workflows/ci.yml', 'package.json'],
    tools: ['github__create_pull_request'],
  },
  {
    name: 'invoice-pdf',
    task: 'Invoices as PDF: the logo is blurred and long addresses are cut off.',
    files: ['src/invoices/render-pdf.ts'],
    messages: ['Customers from Austria need the UID number below the address.'],
  },
  {
    name: 'db-backup',
    task: 'Set up a nightly backup of the Postgres database to S3, and try a restore.',
    files: ['ops/backup.sh', 'ops/restore.md'],
    tools: ['aws__s3_put_object', 'postgres__query'],
    metadata: { ticket: 'OPS-311', owner: 'kim' },
  },
  {
    name: 'email-templates',
    task: 'Translate the emails for shipping notices into German and French.',
    files: ['mail/shipping.de.html', 'mail/shipping.fr.html'],
    metadata: { ticket: 'WEB-87' },
  },
  {
    name: 'rate-limit',
    task: 'Limit the number of requests per API key, and answer 429 with Retry-After.',
    files: ['src/api/rate-limit.ts', 'src/api/keys.ts'],
  },
  {
    name: 'review-auth',
    task: 'Review the pull request about passkeys and look for ways around the second factor.',
    files: ['src/auth/passkeys.ts', 'src/auth/second-factor.ts'],
    tools: ['github__get_pull_request', 'github__create_review'],
  },
  {
    name: 'stock-sync',
    task: 'Synchronise stock levels with the warehouse every five minutes through their SOAP interface.',
    files: ['src/warehouse/soap-client.ts', 'src/warehouse/sync.ts'],
    tools: ['shell__run'],
  },
  {
    name: 'onboarding-docs',
    task: 'Write a page for new developers: how to set up the database and run the tests.',
    files: ['docs/getting-started.md'],
    tools: ['fs__write_file'],
  },
];

const { open, index, find } = openIndexInMemory();

async function findNames(text: string): Promise<(string | null)[]> {
  return (await find({ text })).map(({ name }) => name);
}

beforeAll(async () => {
  for (const { name, task, metadata = {}, tools = [], files = [], messages = [] } of works) {
    const session = await open({ name, task, metadata });
    for (const tool of tools) index.noteTool(session, tool);
    for (const file of files) index.noteFile(session, file);
    for (const message of messages) index.noteMessage(session, message);
  }
});

describe('P13: the session that is meant comes first', () => {
  test.each([
    ['who worked on taxes', 'checkout-tax'],
    ['sales tax rates per state', 'checkout-tax'],
    ['refunding payments', 'refund-api'],
    ['why are users logged out', 'login-bug'],
    ['cookie expiry', 'login-bug'],
    ['slow product search', 'search-index'],
    ['CSV parser', 'csv-import'],
    ['parse supplier files with quotes', 'csv-import'],
    ['dark theme', 'dark-mode'],
    ['flaky test in CI', 'flaky-tests'],
    ['race condition warehouse', 'flaky-tests'],
    ['node 24 docker upgrade', 'upgrade-node'],
    ['pdf invoices blurred logo', 'invoice-pdf'],
    ['Austria UID', 'invoice-pdf'],
    ['database backup', 'db-backup'],
    ['OPS-311', 'db-backup'],
    ['German translation of mails', 'email-templates'],
    ['429 retry after', 'rate-limit'],
    ['passkey review', 'review-auth'],
    ['warehouse stock sync', 'stock-sync'],
    ['how do new developers set up the database', 'onboarding-docs'],
    ['rate-limit.ts', 'rate-limit'],
    ['src/warehouse/sync.ts', 'stock-sync'],
    ['stripe__create_refund', 'refund-api'],
    ['screenshots', 'dark-mode'],
    ['login-bug', 'login-bug'],
    ['where did somebody mention Oregon', 'checkout-tax'],
  ])('%s: %s', async (question, expected) => {
    expect((await findNames(question))[0]).toBe(expected);
  });

  test('a session with more of the words comes before one that has a rarer word', async () => {
    const found = await findNames('warehouse tests race');
    expect(found[0]).toBe('flaky-tests');
    expect(found).toContain('stock-sync');
  });

  test('a name says more than a task, a task more than a file, and a file more than a message', async () => {
    const { open: openOther, index: other, find: findOther } = openIndexInMemory();
    const message = await openOther({ agentId: 'message' });
    other.noteMessage(message, 'zebra');
    await openOther({ agentId: 'metadata', metadata: { note: 'zebra' } });
    other.noteFile(await openOther({ agentId: 'file' }), 'zebra');
    await openOther({ agentId: 'task', task: 'zebra' });
    await openOther({ agentId: 'name', name: 'zebra' });
    const found = (await findOther({ text: 'zebras' })).map(({ agentId }) => agentId);
    expect(found).toEqual(['name', 'task', 'file', 'metadata', 'message']);
  });

  test('of equal sessions the newest comes first', async () => {
    const { open: openOther, findIds, advance } = openIndexInMemory();
    for (const id of ['equal-b', 'equal-a', 'equal-c', 'equal-d']) {
      await openOther({ id, task: 'Count zebras' });
      if (id !== 'equal-c') advance(1000);
    }
    expect(await findIds({ text: 'zebra' })).toEqual(['equal-c', 'equal-d', 'equal-a', 'equal-b']);
    expect(await findIds()).toEqual(['equal-c', 'equal-d', 'equal-a', 'equal-b']);
  });
});
