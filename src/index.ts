export type { ConfigInput } from './config/schema.ts';
export type { SessionContext } from './context/context-names.ts';
export {
  type EnvSource,
  explainInjection,
  type InjectableServer,
  type Injected,
  type Injection,
  type InjectionOptions,
  injectSessionContext,
  type Provenance,
} from './context/inject.ts';
export { AmbitError, type ErrorCode, isAmbitError } from './errors.ts';
export type { StageWatch } from './gateway/compose.ts';
export type { CallExplanation } from './gateway/explain-call.ts';
export type { McpServer, McpServers, ServerView, SessionServers } from './gateway/mcp-servers.ts';
export { type CreateGatewayOptions, createGateway, type EmbeddedGateway } from './library/create-gateway.ts';
export type { McpTransport } from './library/in-process-transport.ts';
export type { Log, LogFields } from './log.ts';
export type { Narrowing, SessionDraft, SessionView } from './sessions/session.ts';
