export type { ConfigInput } from './config/schema.ts';
export { AmbitError, type ErrorCode, isAmbitError } from './errors.ts';
export { type CreateGatewayOptions, createGateway, type EmbeddedGateway } from './library/create-gateway.ts';
export type { McpTransport } from './library/in-process-transport.ts';
export type { SessionDraft, SessionView } from './sessions/session.ts';
