import { z } from 'zod';
import { type StoreKind, type StoreKindName, type StoreSettings, storeKinds } from '../../stores/store-kinds.ts';
import { jwtSchema } from './schema-jwt.ts';
import { byteCount, filePath, httpUrl, lifeSeconds, positiveCount, timerSeconds, trustLevel } from './schema-parts.ts';
import { headerMap } from './schema-server.ts';

const bareHost = z.string().regex(/^[A-Za-z0-9._:%-]{1,253}$/, {
  error: 'expected a host name or an IP address, without brackets, port or scheme',
});

const hostHeader = z.string().regex(/^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/, {
  error: 'expected a host name, with ":port" where it is not the usual one',
});

const webOrigin = z.string().superRefine((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.origin !== text) {
    context.addIssue({ code: 'custom', message: 'expected an origin such as "https://app.example.com"' });
  }
});

export const listenSchema = z.strictObject({
  host: bareHost.default('127.0.0.1').describe('Address to listen on; beyond loopback only behind a proxy.'),
  port: z.number().int().min(0).max(65_535).default(7420).describe('Port to listen on; 0 takes any free one.'),
  tls: z
    .strictObject({
      cert: filePath.describe('PEM file with the certificate chain.'),
      key: filePath.describe('PEM file with the private key.'),
    })
    .optional()
    .describe('Serve HTTPS with these files.'),
  behindProxy: z.boolean().default(false).describe('A proxy in front does TLS; allows listening beyond loopback.'),
  publicUrl: httpUrl.optional().describe('The address clients use, where it differs from host and port.'),
  allowedHosts: z.array(hostHeader).max(1000).default([]).describe('Further values of the Host header to accept.'),
  maxConnections: positiveCount(1_000_000)
    .default(512)
    .describe('Most connections at a time. At the limit the oldest one without a credential is closed.'),
  allowedOrigins: z.array(webOrigin).max(1000).default([]).describe('Web origins whose pages may call.'),
});

export const authSchema = z.strictObject({
  anonymous: z
    .union([z.enum(['off', 'loopback']), z.literal(false)])
    .transform((value) => (value === false ? 'off' : value))
    .prefault('off')
    .describe('Whether a call without a credential is served on a loopback listener, as a sandboxed local user.'),
  onInvalidKey: z
    .enum(['refuse', 'anonymous'])
    .default('refuse')
    .describe('What happens to a credential that does not verify.'),
  jwt: jwtSchema.prefault([]).describe('Identity providers whose access tokens prove a user.'),
});

const kindNames = Object.keys(storeKinds) as StoreKindName[];
/** The settings of each kind of store, by its name. */
const storeSettings = Object.fromEntries(
  Object.entries<StoreKind>(storeKinds).flatMap(([kind, { settings }]) =>
    settings === undefined ? [] : [[kind, settings.optional().describe(`The connection, for kind "${kind}".`)]],
  ),
);

/** The section `store` as it is written: the kind can be left out where settings name it. */
interface GivenStore {
  readonly kind?: StoreKindName | undefined;
  readonly [settings: string]: unknown;
}

export const storeSchema = z
  .strictObject({
    kind: z.enum(kindNames).optional().meta({ default: 'sqlite' }).describe('Where records live.'),
    ...storeSettings,
  })
  .superRefine((store: GivenStore, context) => {
    for (const [name, schema] of Object.entries(storeSettings)) {
      const isGiven = store[name] !== undefined;
      const needed = Object.keys(schema.unwrap().shape).map((key) => `${name}.${key}`);
      if (store.kind === name && !isGiven) {
        const message = `missing; kind "${name}" needs ${needed.join(', ')}`;
        context.addIssue({ code: 'custom', path: [name], message });
      } else if (isGiven && store.kind !== undefined && store.kind !== name) {
        context.addIssue({ code: 'custom', path: [name], message: `goes with kind "${name}" only` });
      }
    }
  })
  .transform((store: GivenStore) => {
    const given = kindNames.find((name) => store[name] !== undefined);
    return { ...store, kind: store.kind ?? given ?? 'sqlite' } as StoreSettings;
  });

export const sessionsSchema = z.strictObject({
  ttlSeconds: lifeSeconds.default(3600).describe('A session ends after this long without a call.'),
  maxLifetimeSeconds: lifeSeconds.default(86_400).describe('A session ends after this long, used or not.'),
  maxSessions: positiveCount().default(1000).describe('Most sessions held in memory at a time.'),
  maxPerUser: positiveCount().default(200).describe('Most live sessions of one user.'),
  metadataBytes: z.number().int().min(0).max(1_048_576).default(10_240).describe('Most metadata of one session.'),
  includeMeta: z.boolean().default(false).describe('Name session and correlation id in the results clients get.'),
  defaultTrust: trustLevel.prefault('sandboxed').describe('Trust of a session that asks for none.'),
  allowDirect: z
    .enum(['auto', 'always', 'never'])
    .default('auto')
    .describe(
      'Direct stdio sessions; "auto" refuses them once keys of more than one user or an identity provider exist.',
    ),
  bindAddress: z.boolean().default(false).describe('Tie a session to the network address it was first used from.'),
});

function createQuotaKeys(whose: string, span: string) {
  return {
    totalCalls: positiveCount(Number.MAX_SAFE_INTEGER).optional().describe(`Most tool calls ${whose} ${span}.`),
    totalBytes: positiveCount(Number.MAX_SAFE_INTEGER)
      .optional()
      .describe(`Most bytes of tool calls and their answers ${whose} ${span}.`),
    burst: positiveCount()
      .optional()
      .describe(`How many of a minute's calls ${whose} may come at once; all unless set.`),
  };
}

function checkBurst(
  limits: { readonly burst?: number | undefined; readonly callsPerMinute?: number | undefined },
  context: z.RefinementCtx,
): void {
  if (limits.burst === undefined || limits.callsPerMinute !== undefined) return;
  context.addIssue({ code: 'custom', path: ['burst'], message: 'goes with callsPerMinute only' });
}

export const quotasSchema = z.strictObject({
  session: z
    .strictObject({
      callsPerMinute: positiveCount().default(6000).describe('Most tool calls of one session in a minute.'),
      concurrentCalls: positiveCount().default(64).describe('Most tool calls of one session at a time.'),
      ...createQuotaKeys('of one session', 'in its life'),
    })
    .prefault({})
    .describe('Bounds of each session.'),
  user: z
    .strictObject({
      callsPerMinute: positiveCount().optional().describe('Most tool calls of one user in a minute.'),
      concurrentCalls: positiveCount().optional().describe('Most tool calls of one user at a time.'),
      ...createQuotaKeys('of one user', 'in a day, by UTC'),
    })
    .superRefine(checkBurst)
    .prefault({})
    .describe('Bounds of each user; none unless set.'),
  workspace: z
    .strictObject({
      callsPerMinute: positiveCount().optional().describe('Most tool calls in one workspace in a minute.'),
      concurrentCalls: positiveCount().optional().describe('Most tool calls in one workspace at a time.'),
      ...createQuotaKeys('in one workspace', 'in a day, by UTC'),
    })
    .superRefine(checkBurst)
    .prefault({})
    .describe('Bounds of each workspace; none unless set.'),
});

export const credentialsSchema = z.strictObject({
  keyFile: filePath
    .optional()
    .describe('File with the key that credentials are sealed with; one in the data directory unless said.'),
});

const reservedMetaKeys = new Set(['progresstoken', 'traceparent', 'tracestate', 'baggage']);

export const contextSchema = z.strictObject({
  envPrefixes: z
    .array(
      z.string().regex(/^[A-Z](?:[A-Z0-9_]{0,30}[A-Z0-9])?$/, {
        error: 'expected up to 32 of A-Z, 0-9 and "_", starting with a letter, without "_" at the end',
      }),
    )
    .min(1)
    .max(10)
    .default(['AMBIT'])
    .describe('Prefixes under which a process finds its context in the environment.'),
  announceKeys: z
    .array(
      z
        .string()
        .regex(/^[A-Za-z][A-Za-z0-9_-]{0,31}$/, {
          error: 'expected up to 32 letters, digits, "_" and "-", starting with a letter',
        })
        .refine((key) => !reservedMetaKeys.has(key.toLowerCase()), {
          error: 'this key of "_meta" has a meaning of its own',
        }),
    )
    .max(10)
    .default(['ambit'])
    .describe('Keys of "_meta" under which a client may announce a workspace.'),
});

export const eventsSchema = z.strictObject({
  webhook: z
    .strictObject({
      url: httpUrl.describe('Where events are posted.'),
      secretFile: filePath
        .optional()
        .describe('File with the secret they are signed with; one is made in the data directory unless set.'),
    })
    .optional()
    .describe('Tells an address what happens to sessions.'),
});

export const telemetrySchema = z.strictObject({
  otlpUrl: httpUrl
    .optional()
    .describe('Where spans go, by OTLP over HTTP; without a path of its own, to /v1/traces there.'),
  headers: headerMap.default({}).describe('Headers sent along, such as the key of a collector.'),
  sampleRatio: z.number().min(0).max(1).default(1).describe('How many of the traces that start here are told.'),
});

export const processesSchema = z.strictObject({
  startSeconds: timerSeconds
    .default(30)
    .describe(
      'A server that has not answered by then has failed to start. The installation of its package does not count.',
    ),
  idleSeconds: timerSeconds.default(300).describe('A process without calls for this long is ended.'),
  maxSeconds: timerSeconds.default(86_400).describe('No process lives longer.'),
  maxPerSession: positiveCount().default(8).describe('Most processes of one server in one session.'),
  max: positiveCount().default(512).describe('Most processes of servers in the whole gateway.'),
});

export const limitsSchema = z.strictObject({
  bodyBytes: byteCount.default(4_194_304).describe('Largest request body taken from a client.'),
  messageBytes: byteCount.default(16_777_216).describe('Largest single message taken from an upstream.'),
  notificationsPerSecond: positiveCount()
    .default(1000)
    .describe('Most notifications one upstream may send in a second.'),
  pendingPerUpstream: positiveCount().default(1024).describe('Most calls under way to one upstream.'),
});
