import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { createContextWriters } from '../../context/for-tools/call-context.ts';
import { type Catalog, createCatalog } from '../../upstreams/catalog/catalog.ts';
import { openCatalogFile } from '../../upstreams/catalog/catalog-file.ts';
import { type Callers, createCallers } from '../../upstreams/links/caller.ts';
import { createConnector } from '../../upstreams/links/connector.ts';
import { createEraVerdicts, type EraVerdicts } from '../../upstreams/links/era-verdicts.ts';
import { createLinks, type Links } from '../../upstreams/links/links.ts';
import { createProcessSlots, type ProcessSlots } from '../../upstreams/links/process-slots.ts';
import { createSeals, type Seals } from '../../upstreams/links/relay/seals.ts';
import { assertApproved } from '../../upstreams/pins/approvals.ts';
import { createPinnedTools, type PinnedTools } from '../../upstreams/pins/pinned-tools.ts';
import { markListsChanged } from '../lists/announce-lists.ts';
import { createForgetLists, type ForgetLists } from '../lists/forget-lists.ts';
import { serverMessagePipeline } from '../server-message-pipeline.ts';
import type { ClosingStack } from './closing-stack.ts';
import { type AccessParts, openAccess } from './open-access.ts';
import type { GatewayParts } from './react-to-change.ts';

/** The servers: what they offer, and the links to them. */
export interface Upstreams extends AccessParts {
  readonly callers: Callers;
  readonly verdicts: EraVerdicts;
  readonly vetting: PinnedTools;
  readonly catalog: Catalog;
  readonly forgetLists: ForgetLists;
  readonly slots: ProcessSlots;
  readonly links: Links;
  readonly seals: Seals;
}

interface UpstreamOptions extends Omit<GatewayParts, 'upstreams' | 'pipeline'> {
  readonly credentials: boolean;
}

export async function openUpstreams(options: UpstreamOptions, closing: ClosingStack): Promise<Upstreams> {
  const { storage, sessions: parts } = options;
  const { settings, paths, journal, store, log } = storage;
  const { config, servers } = settings;
  const access = await openAccess(options, closing);
  const callers = createCallers();
  const verdicts = createEraVerdicts(join(paths.dataDir, 'eras.json'), (server, was, now, doubt) => {
    if (doubt === undefined) log.info('server era corrected', { server, was, now });
    else log.info('server era in doubt', { server, was, now });
  });
  verdicts.applyDefinitions(servers().values());
  const vetting = createPinnedTools(access.approvals, journal, log);
  const offers = openCatalogFile(join(paths.dataDir, 'catalog.json'));
  closing.push(offers.close);
  const catalog = createCatalog(offers, vetting.filter);
  const forgetLists = createForgetLists({ catalog, config, users: parts.directory.users, store });
  closing.push(async () => {
    await storage.feedFlushed();
    await forgetLists.close();
  });
  forgetLists.ofLostWorkspaces();
  const seals = createSeals();
  const slots = createProcessSlots(() => config().processes);
  const links = openLinks(options, access, { catalog, callers, verdicts, seals, slots });
  closing.push(links.close);
  return { ...access, callers, verdicts, vetting, catalog, forgetLists, slots, links, seals };
}

function openLinks(
  { storage, sandbox, sessions: parts, observability }: UpstreamOptions,
  { approvals, auth, pseudonyms, resolution }: AccessParts,
  { catalog, callers, verdicts, seals, slots }: Pick<Upstreams, 'catalog' | 'callers' | 'verdicts' | 'seals' | 'slots'>,
): Links {
  const { settings, config: first, journal, keys } = storage;
  const { config, servers } = settings;
  const { sessions, folders } = parts;
  const { tmpRoot, runners } = sandbox;
  const deliver = serverMessagePipeline(journal);
  const lists = { catalog, callers, sessions, servers, resolution };
  const links = createLinks({
    connect: createConnector({
      config,
      tmpRoot,
      runners,
      journal,
      seals,
      keys: settings.keys,
      contexts: createContextWriters({
        keys,
        pseudonyms,
        issuer: first.listen.publicUrl ?? keys.name,
        workload: `ambit:${randomBytes(8).toString('hex')}`,
        pathOf: folders.path,
      }),
      assertApproved: (server) => assertApproved(approvals, server),
      admit: resolution.admit,
      prepareLaunch: resolution.launch,
      slots,
      watch: observability.observer.processOf,
      onUnreached: observability.observer.serverUnreached,
      onReached: observability.observer.serverReached,
      onNoContext: observability.metrics.contextNotSent,
      headersFor: auth.authFor.headers,
      onRefused: auth.authFor.handleRefusal,
    }),
    verdicts,
    onServerMessage(sent) {
      markListsChanged(sent, links, lists);
      return deliver(sent);
    },
    messageBytes: first.limits.messageBytes,
    requireAccess: resolution.requireAccess,
    hasOwnFolder: folders.hasOwnFolder,
    onHandshake: observability.activity.shookHands,
  });
  return links;
}
