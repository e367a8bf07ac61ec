import { expect, test } from 'vitest';
import { createObserver } from '../../src/gateway/observer.ts';
import type { LogFields } from '../../src/observability/log/log.ts';
import { createSafeLog, hideUser } from '../../src/observability/log/safe-log.ts';
import { formatTextLine } from '../../src/observability/log/stderr-log.ts';
import { createMetrics } from '../../src/observability/metrics/metrics.ts';
import type { Session } from '../../src/sessions/session.ts';

const session: Session = {
  id: 'd41d8cd98f00b204e9800998ecf8427e',
  version: 1,
  name: undefined,
  parentId: undefined,
  keyId: undefined,
  task: undefined,
  quotas: undefined,
  metadata: {},
  origin: undefined,
  userId: 'ada@example.com',
  agentId: undefined,
  workspaceId: 'garden',
  trustLevel: 'direct',
  servers: ['notes'],
  permissions: ['garden:dig'],
  createdAt: Date.now(),
  ttlSeconds: 60,
  endsAt: Date.now() + 60_000,
  tokenDigests: ['0'.repeat(64)],
};
const metadata = { ticket: 'GARDEN-12', owner: 'bob@example.com', deploy_token: 'anything', note: 'password=hunter22' };

function collectLines(debug: boolean) {
  const lines: string[] = [];
  const say = (event: string, fields?: LogFields) => void lines.push(formatTextLine(event, fields));
  const log = createSafeLog({ info: say, warn: say, ...(debug ? { debug: say } : {}) });
  return { lines, observer: createObserver(log, createMetrics({ isServer: () => true, liveSessions: () => 0 })) };
}

test('L9: at debug a session’s bounds and metadata are told, without what is secret or somebody’s', () => {
  const { lines, observer } = collectLines(true);
  observer.sessionOpened({ ...session, metadata });
  expect(lines).toEqual([
    `session opened: session=d41d8cd9 user=${hideUser('ada@example.com')} workspace=garden trust=direct ttl=60 ` +
      'servers=notes permissions=garden:dig metadata.ticket=GARDEN-12 metadata.owner="[personal: mail address]" ' +
      'metadata.deploy_token=[secret] metadata.note="password=[secret]"',
  ]);
});

test('L9: above debug nothing is told of sessions', () => {
  const { lines, observer } = collectLines(false);
  observer.sessionOpened({ ...session, metadata });
  observer.sessionRestricted(session);
  observer.sessionEnded(session, 'ended');
  expect(lines).toEqual([]);
});
