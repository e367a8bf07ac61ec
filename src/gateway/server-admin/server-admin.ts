import { suggestClosest } from '../../config/explain/suggest.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { createReaderTurns, type Reader } from '../../lib/async/reader-turns.ts';
import type { LoginAdmin } from '../../upstreams/auth/login-admin.ts';
import type { CachedOffer } from '../../upstreams/catalog/catalog-file.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import type { WantedSignal } from '../../upstreams/pins/file-hashes.ts';
import type { Sandbox } from '../assembly/open-sandbox.ts';
import type { ServerCheck } from '../inspect/check-server.ts';
import { type DefinitionReader, describeServerDetails, type ServerDetails } from './describe-server.ts';
import { type ConfigurationEditor, createConfigurationEditor } from './edit-configuration.ts';
import { createServerReviews, type ReviewedHashes, type ServerReview, type ServerReviews } from './review-server.ts';

/** The servers for an operator: what they run, their approvals, and changes to their list. */
export interface ServerAdmin {
  /**
   * Describes a server without starting it. Files are read only if it needs an approval, for one reader after the other.
   * The description for a client that has left is incomplete.
   */
  describe(name: string, role: DefinitionReader, asked?: DetailsReader): Promise<ServerDetails>;
  /** Starts or calls an approved server once, apart from the links of sessions. At most two at a time. */
  check(name: string): Promise<ServerCheck>;
  /** Shows what an approval would allow. An approved server is started once to list its tools. */
  review(name: string): Promise<ServerReview>;
  /** Approves exactly what was reviewed. Throws APPROVAL_STALE if the server is different now. */
  approve(name: string, seen: ReviewedHashes): ReturnType<ServerReviews['approve']>;
  /** Changes the servers in the configuration file. */
  readonly editor: ConfigurationEditor;
}

/** The reader of details. */
interface DetailsReader extends Reader {
  /** Aborted when nobody waits for them any more. */
  readonly signal?: WantedSignal | undefined;
}

interface ServerAdminParts {
  readonly paths: { readonly configFile: string; readonly dataDir: string };
  readonly config: () => Config;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  readonly approvals: Approvals;
  readonly logins: LoginAdmin;
  /** Returns the stored lists of a server, of all owners. */
  readonly offers: (server: string) => readonly CachedOffer[];
  readonly openSandbox: () => Promise<Pick<Sandbox, 'tmpRoot' | 'runners'>>;
  /** Reads the configuration file and applies it; undefined without a gateway. */
  readonly reload: (() => Promise<unknown>) | undefined;
}

export function createServerAdmin(parts: ServerAdminParts): ServerAdmin {
  const { config, servers, approvals, logins, offers } = parts;
  const reviews = createServerReviews(parts);
  const runDescribe = createReaderTurns('Too many requests for the details of servers wait.');
  const find = (name: string) => requireEnabledServer(servers(), name);
  return {
    async describe(name, role, asked = {}) {
      const server = find(name);
      const pins = await runDescribe(asked, () => approvals.preview(server, asked.signal));
      const sources = { config: config(), approvals, logins, offers: offers(name) };
      return describeServerDetails(server, pins, role, sources);
    },
    check: async (name) => reviews.check(find(name)),
    review: async (name) => reviews.review(find(name)),
    approve: async (name, seen) => reviews.approve(find(name), seen),
    editor: createConfigurationEditor(parts),
  };
}

/** Finds a server. An unknown one is refused with the name that was probably meant. */
function requireEnabledServer(servers: ReadonlyMap<string, ServerDefinition>, name: string): ServerDefinition {
  const server = servers.get(name);
  if (server !== undefined) return server;
  throw new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The configuration has no enabled server "${name.slice(0, 64)}"${suggestClosest(name, [...servers.keys()]) || '.'}`,
    hint: 'List them with "ambit server list".',
  });
}
