import { z } from 'zod';
import { type StoreKind, type StoreKindName, type StoreSettings, storeKinds } from '../../stores/store-kinds.ts';
import { jwtSchema } from './schema-jwt.ts';
import {
  byteCount,
  filePath,
  httpUrl,
  lifeSeconds,
  positiveCount,
  secureUrl,
  timerSeconds,
  trustLevel,
} from './schema-parts.ts';
import { headerMap } from './schema-server.ts';

const bareHost = z.string().regex(/^[A-Za-z0-9._:%-]{1,253}$/, {
  error: 'expected a host name or an IP address, without brackets, port or scheme',
});

const hostHeader = z.string().regex(/^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/, {
  error: 'expected a host name, with ":port" if it is not the default port',
});

const webOrigin = z.string().superRefine((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.origin !== text) {
    context.addIssue({ code: 'custom', message: 'expected an origin such as "https://app.example.com"' });
  }
});

export const listenSchema = z.strictObject({
  host: bareHost
    .default('127.0.0.1')
    .describe('Address to listen on. Any address other than loopback requires behindProxy.'),
  port: z.number().int().min(0).max(65_535).default(7420).describe('Port to listen on; 0 picks a free port.'),
  tls: z
    .strictObject({
      cert: filePath.describe('PEM file with the certificate chain.'),
      key: filePath.describe('PEM file with the private key.'),
    })
    .optional()
    .describe('Certificate and key for HTTPS.'),
  behindProxy: z
    .boolean()
    .default(false)
    .describe('A proxy in front of Ambit terminates TLS. Allows addresses other than loopback.'),
  publicUrl: httpUrl.optional().describe('Base URL that clients use, if it differs from host and port.'),
  allowedHosts: z.array(hostHeader).max(1000).default([]).describe('Additional accepted values of the Host header.'),
  maxConnections: positiveCount(1_000_000)
    .default(512)
    .describe(
      'Maximum number of open connections. At the limit, the oldest connection without a valid credential is closed.',
    ),
  allowedOrigins: z
    .array(webOrigin)
    .max(1000)
    .default([])
    .describe('Web origins that may send requests from a browser.'),
});

export const authSchema = z.strictObject({
  anonymous: z
    .union([z.enum(['off', 'loopback']), z.literal(false)])
    .transform((value) => (value === false ? 'off' : value))
    .prefault('off')
    .describe('"loopback" serves requests without a credential on a loopback listener, as a sandboxed anonymous user.'),
  onInvalidKey: z
    .enum(['refuse', 'anonymous'])
    .default('refuse')
    .describe('Whether an invalid credential is refused or treated as anonymous.'),
  jwt: jwtSchema.prefault([]).describe('Identity providers whose access tokens are accepted.'),
  keys: z
    .strictObject({
      url: secureUrl.describe('URL that Ambit asks whether a key is valid.'),
      secretFile: filePath
        .optional()
        .describe(
          'File with the secret that signs the requests. Default: a file that Ambit creates in the data directory.',
        ),
      cacheSeconds: positiveCount(300)
        .default(30)
        .describe('Time for which an accepted key is not checked again. A revoked key works for at most this long.'),
    })
    .optional()
    .describe('Callback that verifies the keys of another system.'),
});

const kindNames = Object.keys(storeKinds) as StoreKindName[];
/** The settings of each kind of store, by its name. */
const storeSettings = Object.fromEntries(
  Object.entries<StoreKind>(storeKinds).flatMap(([kind, { settings }]) =>
    settings === undefined ? [] : [[kind, settings.optional().describe(`Connection settings for kind "${kind}".`)]],
  ),
);

/** The section `store` as it is written: the kind can be left out where settings name it. */
interface GivenStore {
  readonly kind?: StoreKindName | undefined;
  readonly [settings: string]: unknown;
}

export const storeSchema = z
  .strictObject({
    kind: z.enum(kindNames).optional().meta({ default: 'sqlite' }).describe('Kind of store.'),
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
        context.addIssue({ code: 'custom', path: [name], message: `only for kind "${name}"` });
      }
    }
  })
  .transform((store: GivenStore) => {
    const given = kindNames.find((name) => store[name] !== undefined);
    return { ...store, kind: store.kind ?? given ?? 'sqlite' } as StoreSettings;
  });

export const sessionsSchema = z.strictObject({
  ttlSeconds: lifeSeconds.default(3600).describe('A session expires after this many seconds without a call.'),
  maxLifetimeSeconds: lifeSeconds
    .default(86_400)
    .describe('A session expires this many seconds after it was opened, even if it is in use.'),
  maxSessions: positiveCount()
    .default(1000)
    .describe(
      'Maximum number of sessions in memory. With the store "memory" this limits all sessions, and the longest idle one is removed. Other stores keep further sessions in the database.',
    ),
  maxPerUser: positiveCount().default(200).describe('Maximum number of live sessions per user.'),
  metadataBytes: z
    .number()
    .int()
    .min(0)
    .max(1_048_576)
    .default(10_240)
    .describe('Maximum size of the metadata of a session.'),
  includeMeta: z
    .boolean()
    .default(false)
    .describe('Add session id and correlation id to every result, in _meta["ambit/session"].'),
  defaultTrust: trustLevel.prefault('sandboxed').describe('Trust level of sessions that do not request one.'),
  allowDirect: z
    .enum(['auto', 'always', 'never'])
    .default('auto')
    .describe(
      'Whether direct sessions are allowed. "auto" refuses them as soon as an identity provider or auth.keys is configured, or keys of more than one user exist.',
    ),
  children: z
    .strictObject({
      token: z
        .enum(['orchestrator', 'agent'])
        .default('orchestrator')
        .describe(
          'Who gets the token of a session that an agent creates with session_create: the orchestrator, by POST /api/v1/sessions/{id}/tokens, or also the agent, in the answer to a call with a session token.',
        ),
      maxDepth: positiveCount(16)
        .default(3)
        .describe('Maximum depth of the tree of sessions below a session without a parent.'),
      maxChildren: positiveCount(1000).default(16).describe('Maximum number of live child sessions of one session.'),
    })
    .prefault({})
    .describe('Sessions that are opened by other sessions.'),
  messages: z
    .strictObject({
      maxBytes: positiveCount(65_536).default(65_536).describe('Maximum size of a message that a session sends.'),
      maxPerMinute: positiveCount(60_000)
        .default(120)
        .describe('Maximum number of messages that a session sends per minute.'),
      maxUnread: positiveCount(10_000)
        .default(1000)
        .describe('Maximum number of messages in an inbox that are not acknowledged.'),
    })
    .prefault({})
    .describe('Messages between sessions of one workspace.'),
  bindAddress: z
    .boolean()
    .default(false)
    .describe('Accept a session only from the network address it was first used from.'),
});

function createQuotaKeys(whose: string, span: string) {
  return {
    totalCalls: positiveCount(Number.MAX_SAFE_INTEGER)
      .optional()
      .describe(`Maximum number of tool calls ${whose} ${span}.`),
    totalBytes: positiveCount(Number.MAX_SAFE_INTEGER)
      .optional()
      .describe(`Maximum number of bytes in tool calls and their results ${whose} ${span}.`),
    burst: positiveCount()
      .optional()
      .describe(`Maximum number of tool calls ${whose} at once, within callsPerMinute. Default: callsPerMinute.`),
  };
}

function checkBurst(
  limits: { readonly burst?: number | undefined; readonly callsPerMinute?: number | undefined },
  context: z.RefinementCtx,
): void {
  if (limits.burst === undefined || limits.callsPerMinute !== undefined) return;
  context.addIssue({ code: 'custom', path: ['burst'], message: 'needs callsPerMinute' });
}

export const quotasSchema = z.strictObject({
  session: z
    .strictObject({
      callsPerMinute: positiveCount().default(6000).describe('Maximum number of tool calls per session per minute.'),
      concurrentCalls: positiveCount().default(64).describe('Maximum number of concurrent tool calls per session.'),
      ...createQuotaKeys('per session', 'over its lifetime'),
    })
    .prefault({})
    .describe('Limits per session.'),
  user: z
    .strictObject({
      callsPerMinute: positiveCount().optional().describe('Maximum number of tool calls per user per minute.'),
      concurrentCalls: positiveCount().optional().describe('Maximum number of concurrent tool calls per user.'),
      ...createQuotaKeys('per user', 'per day (UTC)'),
    })
    .superRefine(checkBurst)
    .prefault({})
    .describe('Limits per user. Default: none.'),
  workspace: z
    .strictObject({
      callsPerMinute: positiveCount().optional().describe('Maximum number of tool calls per workspace per minute.'),
      concurrentCalls: positiveCount().optional().describe('Maximum number of concurrent tool calls per workspace.'),
      ...createQuotaKeys('per workspace', 'per day (UTC)'),
    })
    .superRefine(checkBurst)
    .prefault({})
    .describe('Limits per workspace. Default: none.'),
});

export const credentialsSchema = z.strictObject({
  keyFile: filePath
    .optional()
    .describe('File with the encryption key for stored credentials. Default: a file in the data directory.'),
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
    .describe('Prefixes of the environment variables that carry the session context.'),
  announceKeys: z
    .array(
      z
        .string()
        .regex(/^[A-Za-z][A-Za-z0-9_-]{0,31}$/, {
          error: 'expected up to 32 letters, digits, "_" and "-", starting with a letter',
        })
        .refine((key) => !reservedMetaKeys.has(key.toLowerCase()), {
          error: 'this key of "_meta" is reserved',
        }),
    )
    .max(10)
    .default(['ambit'])
    .describe('Keys of "_meta" that a client may use to announce its workspace.'),
});

export const eventsSchema = z.strictObject({
  webhook: z
    .strictObject({
      url: httpUrl.describe('URL that events are posted to.'),
      secretFile: filePath
        .optional()
        .describe('File with the signing secret. Default: a file that Ambit creates in the data directory.'),
    })
    .optional()
    .describe('Webhook that receives session events.'),
});

export const journalSchema = z.strictObject({
  keepDays: positiveCount(36_500)
    .default(30)
    .describe('Journal lines are deleted after this many days, in whole files.'),
  maxTotalMb: positiveCount()
    .default(1024)
    .describe('Maximum size of all journal files together. The oldest are deleted first.'),
});

export const telemetrySchema = z.strictObject({
  otlpUrl: httpUrl
    .optional()
    .describe('URL of the OTLP/HTTP collector. "/v1/traces" is added if the URL does not end with it.'),
  headers: headerMap.default({}).describe('HTTP headers for the collector, for example its API key.'),
  sampleRatio: z
    .number()
    .min(0)
    .max(1)
    .default(1)
    .describe('Share of the traces started by Ambit that is exported, from 0 to 1.'),
});

export const processesSchema = z.strictObject({
  startSeconds: timerSeconds
    .default(30)
    .describe(
      'Time in which a started server must answer, or it has failed to start. Installing its package does not count.',
    ),
  idleSeconds: timerSeconds.default(300).describe('A process is ended after this many seconds without a call.'),
  maxSeconds: timerSeconds
    .default(86_400)
    .describe('A process is ended after this many seconds, even if it is in use.'),
  maxPerSession: positiveCount().default(8).describe('Maximum number of processes per server and session.'),
  max: positiveCount().default(512).describe('Maximum number of server processes of the gateway.'),
});

export const limitsSchema = z.strictObject({
  bodyBytes: byteCount.default(4_194_304).describe('Maximum size of a request body from a client.'),
  messageBytes: byteCount.default(16_777_216).describe('Maximum size of one message from a server.'),
  notificationsPerSecond: positiveCount()
    .default(1000)
    .describe('Maximum number of notifications per second from one server.'),
  pendingPerUpstream: positiveCount().default(1024).describe('Maximum number of unanswered requests to one server.'),
});
