import type { Audience, Canaries, Identity } from './canary.ts';
import { type Answer, connectTenantClient, type TenantClient, type TenantClientOptions } from './tenant-client.ts';

/** One tenant at work. */
export interface Tenant {
  readonly identity: Identity;
  readonly session: { readonly id: string; readonly token: string };
  /** All that reached this tenant, at any address. */
  readonly received: string[];
  /** Writes a canary of its own wherever a tenant can write. */
  plantEverywhere(): Promise<void>;
  /** Reads whatever a tenant can read, and tries what is of others. */
  readEverything(foreign: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface TenantOptions extends Pick<TenantClientOptions, 'gateway' | 'url' | 'session'> {
  readonly identity: Identity;
  readonly canaries: Canaries;
}

/** The servers that repeat everything: by stdio in a process of the session's own, and over HTTP in one for all. */
export const repeaters = ['repeats', 'remote'] as const;

export async function createTenant(options: TenantOptions): Promise<Tenant> {
  const { identity, canaries, gateway, url, session } = options;
  const { era, entrance, address } = identity;
  const received: string[] = [];
  const plant = (place: string, audience?: Audience) => canaries.plant(identity, place, audience);

  const common = {
    gateway,
    url,
    session,
    era,
    entrance,
    clientName: plant('clientInfo'),
    reply: plant('elicitationAnswer'),
    header: plant('header'),
    hear: (text: string) => void received.push(text),
  };
  const addresses = address === 'all' ? ['*'] : [...repeaters, 'ambit'];
  const clients = new Map<string, TenantClient>();
  await Promise.all(
    addresses.map(async (server) => clients.set(server, await connectTenantClient({ ...common, server }))),
  );
  const at = (server: string) => clients.get(address === 'all' ? '*' : server) as TenantClient;
  const nameOf = (server: string, name: string) => (address === 'all' ? `${server}__${name}` : name);
  /** Several servers have addresses of this kind, so that at the address of all of them each is named. */
  const addressOf = (server: string, uri: string) => (address === 'all' ? `ambit+${server}:${uri}` : uri);
  const own = (name: string, args: object = {}) =>
    at('ambit').ask('tools/call', { name, arguments: { session: 'current', ...args } });

  async function say(server: string, how: string, args: object = {}, meta: Record<string, unknown> = {}) {
    const params = { name: nameOf(server, 'say'), arguments: { how, ...args } };
    const answer = await at(server).ask('tools/call', params, meta);
    return { params, answer };
  }

  /** In the modern era a question is an answer, and what it asks for comes with the next call. */
  async function beAsked(server: string): Promise<void> {
    const { params, answer } = await say(server, 'ask', { words: plant('argumentOfQuestion') });
    const { inputRequests, requestState } = answer.result ?? {};
    if (inputRequests === undefined) return;
    const replies = Object.keys(inputRequests as object).map((key) => [
      key,
      { action: 'accept', content: { words: common.reply } },
    ]);
    await at(server).ask('tools/call', { ...params, inputResponses: Object.fromEntries(replies), requestState });
  }

  async function plantAt(server: string): Promise<void> {
    const meta = {
      tracestate: `k=${plant('tracestate')}`,
      baggage: `k=${plant('baggage')}`,
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'example.com/own': plant('meta'),
      progressToken: plant('progressToken'),
    };
    await say(server, 'result', { words: plant('argument'), [plant('argumentName')]: 1 }, meta);
    await say(server, 'failure', { words: plant('argumentOfFailure') });
    await say(server, 'error', { words: plant('argumentOfError') });
    await say(server, 'log', { words: plant('argumentOfLog') });
    await say(server, 'progress', { words: plant('argumentOfProgress') }, { progressToken: plant('progressToken') });
    await say(server, 'garbage', { words: plant('argumentOfGarbage') });
    await beAsked(server);
    await at(server).ask('tools/call', { name: nameOf(server, plant('toolName')), arguments: {} });
    await at(server).ask('prompts/get', {
      name: nameOf(server, 'about'),
      arguments: { which: plant('promptArgument') },
    });
    await at(server).ask('prompts/get', { name: nameOf(server, plant('promptName')) });
    await at(server).ask('resources/read', { uri: addressOf(server, `found:///${plant('resourceUri')}`) });
    const ref = { type: 'ref/prompt', name: nameOf(server, 'about') };
    await at(server).ask('completion/complete', { ref, argument: { name: 'which', value: plant('completionValue') } });
    if (era === 'handshake')
      await at(server).ask('resources/subscribe', { uri: addressOf(server, `found:///${plant('resourceUri')}`) });
    await at(server).ask(`own/${plant('method')}`);
    await say(server, 'change', { words: plant('argumentOfChange') });
  }

  async function plantInSession(): Promise<void> {
    await own('session_state_set', { key: plant('stateKey'), value: { [plant('stateName')]: plant('stateValue') } });
    await own('session_state_set', { key: plant('refusedKey'), value: 1, expectedVersion: 7 });
    if (identity.workspace !== '') {
      const path = `${plant('fileName', 'names')}.txt`;
      await own('session_edit_file', { path, content: plant('fileText', 'folder') });
      await own('session_read_file', { path: `${plant('missingFile')}.txt` });
      await own('session_read_file', { path });
      await own('session_grep_search', { pattern: plant('searchQuery') });
      await own('session_codebase_search', { query: plant('searchQuery') });
    }
    await own(plant('toolName'), {});
    await plantInTeam();
  }

  async function plantInTeam(): Promise<void> {
    const child = `worker-${identity.number}`;
    await own('session_create', { name: child, task: plant('task', 'user') });
    await own('session_send_message', { to: child, text: plant('message') });
    await own('session_inbox', { session: child });
    await own('session_report', { session: child, value: { [plant('report')]: plant('report') } });
    await own('session_result', { session: child });
    if (identity.workspace === '') return;
    const [key, value] = [plant('sharedKey', 'team'), plant('sharedState', 'team')];
    await own('session_state_set', { scope: 'workspace', key, value });
  }

  async function listAll(): Promise<void> {
    const methods = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'];
    for (const server of address === 'all' ? ['*'] : repeaters) {
      for (const method of methods) await at(server).ask(method);
      if (era === 'modern') await at(server).ask('server/discover');
    }
  }

  return {
    identity,
    session,
    received,
    async plantEverywhere() {
      await plantInSession();
      for (const client of clients.values()) await client.listen();
      await listAll();
      for (const server of repeaters) await plantAt(server);
      // What a process says last is kept for whoever asks why it ended.
      await say('repeats', 'stderr', { words: plant('stderr') });
      await say('repeats', 'crash', { words: plant('stderr') });
      await say('remote', 'crash', { words: plant('argumentOfCrash') });
    },
    async readEverything(foreign) {
      await listAll();
      for (const server of repeaters) {
        await at(server).ask('tools/call', { name: nameOf(server, 'keep'), arguments: {} });
        await at(server).ask('prompts/get', { name: nameOf(server, 'about') });
        await at(server).ask('tools/call', { name: nameOf(server, 'none'), arguments: {} });
        await say(server, 'result');
      }
      for (const name of ['session_info', 'session_list', 'session_context', 'session_state_list', 'session_inbox'])
        await own(name);
      await own('session_search', { query: '' });
      await own('session_search', { query: 'zq worker txt' });
      const { result } = await own('session_state_list', { scope: 'workspace' });
      const { keys = [] } = (result?.['structuredContent'] ?? {}) as { keys?: { key: string }[] };
      for (const { key } of keys) await own('session_state_get', { scope: 'workspace', key });
      if (identity.workspace !== '') {
        await own('session_list_dir', { path: '.' });
        await own('session_grep_search', { pattern: 'zq' });
        await own('session_file_search', { pattern: '*zq*' });
        await own('session_codebase_search', { query: 'zq' });
      }
      for (const session of foreign) {
        for (const name of ['session_info', 'session_context', 'session_state_list', 'session_list_dir']) {
          await own(name, { session, ...(name === 'session_list_dir' ? { path: '.' } : {}) });
        }
        for (const name of ['session_inbox', 'session_result']) await own(name, { session });
        await own('session_search', { session, query: 'zq' });
        await own('session_state_list', { session, scope: 'workspace' });
      }
    },
    async close() {
      for (const client of clients.values()) await client.close();
    },
  };
}

export type { Answer };
