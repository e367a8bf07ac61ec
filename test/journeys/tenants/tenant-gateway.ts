import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { loadConfig } from '../../../src/config/load/load.ts';
import { handleControlRequest } from '../../../src/entrances/control/handle-request.ts';
import { localCaller } from '../../../src/entrances/control/route.ts';
import { listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import { startRepeater } from '../../fixtures/start-repeater.ts';
import { readFilesBelow } from '../../read-files.ts';
import { startReceiver } from '../../sessions/events/webhook-receiver.ts';
import { repository } from '../start-ambit.ts';
import type { Canaries, Identity } from './canary.ts';
import { createTenant, type Tenant } from './tenant.ts';

/** A gateway with many tenants, and everything that an operator could look at. */
export interface TenantGateway {
  readonly gateway: Gateway;
  readonly dataDir: string;
  open(identity: Identity): Promise<Tenant>;
  /** Everything the gateway has written or reports, by its place. */
  surfaces(): Promise<Map<string, string>>;
  /** Only what lies on the disk. */
  onDisk(): Map<string, string>;
  /** Ends the gateway; what it wrote stays. */
  close(): Promise<void>;
  remove(): Promise<void>;
}

const script = join(repository, 'test/fixtures/hostile/repeats-on-stdio.js');

export async function startTenantGateway(canaries: Canaries): Promise<TenantGateway> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-canaries-')));
  const dataDir = join(folder, 'data');
  const configFile = join(folder, 'etc', 'ambit.yaml');
  for (const name of ['etc', 'garden', 'kitchen', 'apart']) mkdirSync(join(folder, name));
  const [remote, receiver] = await Promise.all([startRepeater(), startReceiver()]);
  const cache = { keep: { ttlSeconds: 600, per: 'user' } };
  const text = JSON.stringify({
    version: 1,
    sessions: { allowDirect: 'always', maxPerUser: 1000 },
    servers: {
      repeats: { command: process.execPath, args: [script], cache },
      remote: { url: remote.url, context: 'full', trust: ['direct', 'sandboxed'], cache },
    },
    workspaces: {
      garden: { path: join(folder, 'garden') },
      kitchen: { path: join(folder, 'kitchen') },
      apart: { path: join(folder, 'apart'), isolation: 'copy' },
    },
    events: { webhook: { url: receiver.url } },
  });
  writeFileSync(configFile, text);
  const lines: string[] = [];
  const say = (event: string, fields = {}) => void lines.push(formatTextLine(event, fields));
  const log = { info: say, warn: say, debug: say };
  const { config } = await loadConfig({ text, file: configFile });
  const gateway = await openGateway({ config, configFile, dataDir, log });
  const http = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log);
  const tenants: Tenant[] = [];
  const users = new Map<string, Promise<void>>();
  let isOpen = true;

  async function addUser(identity: Identity): Promise<void> {
    const { userId } = identity;
    await gateway.people.users.add(userId);
    // Others have none, so that there are lists to be written down.
    if (userId === 'ada') {
      const secret = canaries.plant(identity, 'credential', 'user');
      await gateway.credentials.set({ userId, server: 'repeats', env: 'SECRET' }, secret);
      const header = canaries.plant(identity, 'credential', 'user');
      await gateway.credentials.set({ userId, server: 'remote', header: 'x-secret' }, header);
    }
    const scope = `user:${userId}`;
    const policy = canaries.plant(identity, 'policy', 'user');
    await gateway.policies.set({ scope, name: 'own', mode: 'prepend', text: policy });
    await gateway.policies.addObjective({ scope, text: canaries.plant(identity, 'policy', 'user') });
  }

  async function admin(path: string): Promise<string> {
    return JSON.stringify(
      (await handleControlRequest(gateway, { method: 'GET', path, body: undefined }, localCaller)).body,
    );
  }

  async function adminAll(): Promise<string> {
    const nouns = ['sessions', 'credentials', 'users', 'teams', 'keys', 'logins', 'policies', 'objectives'];
    const ofSessions = tenants.flatMap(({ session: { id } }) => [
      `sessions/${id}`,
      `sessions/${id}/servers`,
      `sessions/${id}/calls`,
    ]);
    const texts = [...nouns, ...ofSessions].map((path) => admin(`/api/v1/${path}`));
    return (await Promise.all(texts)).join('\n');
  }

  function onDisk(): Map<string, string> {
    const found = new Map<string, string>();
    for (const [path, text] of readFilesBelow(dataDir)) {
      if (text === '') continue;
      const [top = ''] = relative(dataDir, path).split('/');
      const where = /^ambit\.db/.test(top) || top.includes('.db') ? 'store' : top;
      // A name can tell as much as what is in the file.
      found.set(where, `${found.get(where) ?? ''}\n${path}\n${text}`);
    }
    return found;
  }

  async function close(): Promise<void> {
    if (!isOpen) return;
    isOpen = false;
    for (const tenant of tenants) await tenant.close();
    await http.close(0);
    await gateway.close();
  }

  return {
    gateway,
    dataDir,
    async open(identity) {
      const { userId, workspace, trust } = identity;
      const known = users.get(userId) ?? addUser(identity);
      users.set(userId, known);
      await known;
      const { session, token } = await gateway.openSession({
        userId,
        trustLevel: trust,
        ...(workspace === '' ? {} : { workspaceId: workspace }),
        name: canaries.plant(identity, 'sessionName', 'user'),
        agentId: canaries.plant(identity, 'agentId', 'user'),
        metadata: { [canaries.plant(identity, 'metadata')]: canaries.plant(identity, 'metadata') },
      });
      const tenant = await createTenant({
        identity,
        canaries,
        gateway,
        url: http.url,
        session: { id: session.id, token },
      });
      tenants.push(tenant);
      return tenant;
    },
    async surfaces() {
      return new Map([
        ...onDisk(),
        ['log', lines.join('\n')],
        ['metrics', await (await fetch(`${http.url}/metrics`)).text()],
        ['admin', await adminAll()],
        ['webhook', receiver.seen.map(({ headers, body }) => JSON.stringify(headers) + body).join('\n')],
      ]);
    },
    onDisk,
    close,
    async remove() {
      await close();
      await remote.stop();
      await receiver.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
