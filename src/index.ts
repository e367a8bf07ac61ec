export type { ConfigInput } from './config/schema/schema.ts';
export type { ToolContext as SessionContext } from './context/for-tools/session-context.ts';
export {
  type EnvSource,
  explainInjection,
  type InjectableServer,
  type Injected,
  type Injection,
  type InjectionOptions,
  injectSessionContext,
  type Provenance,
} from './context/for-tools/session-context.ts';
export { AmbitError, type ErrorCode, isAmbitError } from './errors.ts';
export type { StageWatch } from './gateway/compose.ts';
export type { CallExplanation } from './gateway/inspect/explain-call.ts';
export type { McpServer, McpServers, ServerView, SessionServers } from './gateway/inspect/mcp-servers.ts';
export type { Log, LogFields } from './observability/log/log.ts';
export type { McpTransport } from './public/create-gateway.ts';
export { type CreateGatewayOptions, createGateway, type EmbeddedGateway } from './public/create-gateway.ts';
export type { Restriction, SessionDraft, SessionView } from './sessions/session.ts';
export type { EmbeddingProvider } from './workspaces/codebase/embeddings.ts';
