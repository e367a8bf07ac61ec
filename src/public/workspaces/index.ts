export { AmbitError, type ErrorCode, isAmbitError } from '../../errors.ts';
export type { WorkspaceBackend } from '../../workspaces/backends/backend.ts';
export {
  openContainerBackends,
  type StandaloneContainers,
} from '../../workspaces/backends/container/container-backends.ts';
export {
  type DatabaseOptions,
  openDatabase as openDatabaseBackend,
} from '../../workspaces/backends/database/open-database.ts';
export { type LocalOptions, openLocal as openLocalBackend } from '../../workspaces/backends/local/open-local.ts';
export type { EmbeddingProvider } from '../../workspaces/codebase/embeddings.ts';
export {
  type ConfiguredPaths,
  createPathGuard,
  createPathRules,
  type PathGuard,
  type PathRules,
} from '../../workspaces/path-guard.ts';
export { openRoot, type SafeRoot, type SafeRootOptions } from '../../workspaces/saferoot/open-root.ts';
export { SafeRootError } from '../../workspaces/saferoot/saferoot-error.ts';
export { createFileTools, type FileTools, type FileToolsOptions, type SessionFolder } from './create-file-tools.ts';
